"""The exporter, the rules and every query of the dashboard under a real Prometheus, with a run that is really there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from migctl.core.seeing.figure_metrics import figure_families
from migctl.core.seeing.run_metrics import run_families
from migctl.core.seeing.tallies import added
from migctl.render.exposition import OPEN_METRICS, TEXT, exposition
from tests.support import metric_values
from tests.support.engines import missing
from tests.support.program import ROOT, Program
from tests.support.prometheus import Prometheus, prometheus, promtool

MONITORING = ROOT / "compose/monitoring"
DASHBOARD = json.loads((MONITORING / "grafana/dashboards/migctl.json").read_text("utf-8"))
PLAN = """
name: night
runtime: process
max_parallel: 2
defaults:
  cpus: 1
  command:
    - sh
    - -c
    - 'n=0; while :; do n=$$((n+32)); echo "migctl: samples=$$n wait=$$((n/640)).5"; sleep 0.1; done'
jobs:
  one: {profile: 1g.10gb}
  two: {profile: 1g.10gb}
  three: {profile: 1g.10gb}
  bad: {profile: 1g.10gb, command: "false", priority: 9}
"""
NOTHING_HERE = {
    "migctl_gpu_power_limit_watts": "the simulated GPU tells no limit",
}
"""Queries of the dashboard that may give nothing in this run, and why."""


def test_what_is_exported_passes_promtools_own_check() -> None:
    seen = metric_values.reading()
    families = (
        *run_families(metric_values.status(), supervised=True),
        *figure_families(seen, metric_values.diagnosis(), added({}, seen)),
    )
    done = promtool("check", "metrics", text=exposition(families, TEXT))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_rules_and_the_configuration_are_right_and_do_what_they_say() -> None:
    for words in (
        ("check", "rules", str(MONITORING / "rules/migctl.yml")),
        ("check", "config", str(MONITORING / "prometheus.yml")),
        ("test", "rules", str(ROOT / "tests/data/monitoring/rules.test.yml")),
    ):
        done = promtool(*words)

        assert done.returncode == 0, done.stdout + done.stderr


def test_everything_listens_on_the_loopback_address_only_and_is_pinned(tmp_path: Path) -> None:
    text = (MONITORING / "compose.yaml").read_text("utf-8")
    services = yaml.safe_load(text)["services"]

    assert set(services) == {"prometheus", "grafana", "dcgm-exporter", "migctl-exporter"}
    assert all("ports" not in one and one["network_mode"] == "host" for one in services.values())
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert services["dcgm-exporter"]["environment"]["DCGM_EXPORTER_LISTEN"].startswith("127.0.0.1:")
    assert [one["image"] for one in services.values() if re.search(r":(latest)?$|^[^:]+$", one["image"])] == []


def test_compose_reads_the_file() -> None:
    program = shutil.which("docker-compose")
    if program is None:
        missing("docker-compose is not installed")
    done = subprocess.run(
        [program, "-f", str(MONITORING / "compose.yaml"), "config"],
        env={"PATH": "/usr/bin:/bin", "GRAFANA_PASSWORD": "x"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Site:
    """A run, its exporter, and a Prometheus that has scraped it for some seconds."""

    program: Program
    url: str
    prometheus: Prometheus


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    program = Program(folder, DOCKER_HOST=f"unix://{folder}/no-engine.sock", MIGCTL_NVML="sim:h100-sxm5-80gb")
    program.plan(PLAN)
    program.up()
    with program.start("metrics", "--port", "0") as exporter:
        try:
            assert exporter.stdout is not None
            url = exporter.stdout.readline().strip()
            with stand_in_for_dcgm(program) as dcgm, prometheus(folder, configured(folder, url, dcgm)) as here:
                # Two looks and two scrapes make a rate; the verdicts of a job take their time and are 0 until then.
                here.until("rate(migctl_job_cpu_seconds_total[10s]) >= 0")
                here.until("migctl:job_gpu_active:ratio")
                here.until("migctl_job_data_wait_ratio")
                yield Site(program, url, here)
        finally:
            exporter.terminate()
            exporter.wait(10)
            program.clean()


def configured(folder: Path, url: str, dcgm: str) -> Path:
    """The configuration that is shipped, with these targets, and in a hurry."""
    shipped = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    shipped["rule_files"] = [str(MONITORING / "rules/*.yml")]
    targets = {"migctl": url.removeprefix("http://").removesuffix("/metrics"), "dcgm": dcgm}
    shipped["scrape_configs"] = [one for one in shipped["scrape_configs"] if one["job_name"] in targets]
    for one in shipped["scrape_configs"]:
        one["static_configs"] = [{"targets": [targets[one["job_name"]]]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(shipped), "utf-8")
    return path


class stand_in_for_dcgm:  # noqa: N801 -- used as a function with `with`
    """A page as dcgm-exporter 4.8 writes it, of the instances that are there."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __enter__(self) -> str:
        jobs = [job for job in self._program.jobs().values() if job["gi_id"] is not None]
        rows = [
            f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{job["gpu_uuid"]}",pci_bus_id="00000000:3B:00.0",device="nvidia0",'
            f'modelName="NVIDIA H100",GPU_I_PROFILE="7g.79gb",GPU_I_ID="{job["gi_id"]}",Hostname="box"}} 0.75'
            for job in jobs
        ]
        page = "# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge\n" + "\n".join(rows) + "\n"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_prometheus_scrapes_it_without_a_complaint(site: Site) -> None:
    targets = site.prometheus.get("/api/v1/targets")["data"]["activeTargets"]

    assert {one["labels"]["job"]: (one["health"], one["lastError"]) for one in targets} == {
        "migctl": ("up", ""),
        "dcgm": ("up", ""),
    }


def test_the_metrics_say_what_runs_where(site: Site) -> None:
    jobs = site.program.jobs()
    found = {one["metric"]["job_name"]: one["metric"] for one in site.prometheus.query("migctl_job_info")}

    assert set(found) == {name for name, job in jobs.items() if job["state"] == "running"}
    assert len(found) == 2
    for name, metric in found.items():
        job = jobs[name]
        assert metric["UUID"] == job["gpu_uuid"]
        assert metric["GPU_I_ID"] == str(job["gi_id"])
        assert metric["cpuset"] == job["cpus"]
    states = site.prometheus.query("sum by (state) (migctl_run_jobs) > 0")
    assert {one["metric"]["state"]: one["value"][1] for one in states} == {"running": "2", "queued": "1", "failed": "1"}


def test_dcgms_figures_become_those_of_the_jobs(site: Site) -> None:
    found = site.prometheus.query("migctl:job_gpu_active:ratio")

    assert {one["value"][1] for one in found} == {"0.75"}
    assert len({one["metric"]["job_name"] for one in found}) == 2


def queries() -> list[tuple[str, str]]:
    """Title and expression of everything that the dashboard asks."""
    asked = [(p["title"], t["expr"]) for p in DASHBOARD["panels"] for t in p.get("targets", [])]
    asked += [(one["name"], one["expr"]) for one in DASHBOARD["annotations"]["list"]]
    return [(title, text.replace("$__rate_interval", "10s").replace("$run", ".*")) for title, text in asked]


MAY_BE_EMPTY = {"Verdicts", "Jobs that failed", "Activity of GPU instances"}
"""Where nothing is said, nothing fails later, or the simulated instance is idle."""


@pytest.mark.parametrize(("title", "expression"), queries(), ids=[f"{t} {n}" for n, (t, _) in enumerate(queries())])
def test_every_query_of_the_dashboard_is_answered(site: Site, title: str, expression: str) -> None:
    found = site.prometheus.query(expression)

    assert found or title in MAY_BE_EMPTY or expression in NOTHING_HERE, expression


def test_the_dashboard_is_provisioned_as_grafana_wants_it() -> None:
    source = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yml").read_text("utf-8"))
    provider = yaml.safe_load((MONITORING / "grafana/provisioning/dashboards/migctl.yml").read_text("utf-8"))
    used = {t["datasource"]["uid"] for p in DASHBOARD["panels"] for t in p.get("targets", [])}
    places = [tuple(p["gridPos"].values()) for p in DASHBOARD["panels"]]

    assert used == {source["datasources"][0]["uid"]}
    assert provider["providers"][0]["options"]["path"] == "/var/lib/grafana/dashboards"
    assert len(places) == len(set(places))
    assert len({p["id"] for p in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_rules_are_evaluated_and_the_failed_job_raises_its_alert(site: Site) -> None:
    site.prometheus.until('ALERTS{alertname="MigctlJobFailed",job_name="bad"}')
    groups = site.prometheus.get("/api/v1/rules")["data"]["groups"]

    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


def test_a_scrape_keeps_prometheus_waiting_for_a_moment_only(site: Site) -> None:
    (slowest,) = site.prometheus.query('max_over_time(scrape_duration_seconds{job="migctl"}[20s])')

    assert float(slowest["value"][1]) < 0.5, "on a machine that runs tests; alone it is a few milliseconds"


def test_openmetrics_is_what_was_scraped(site: Site) -> None:
    import http.client

    host, _, port = site.url.removeprefix("http://").removesuffix("/metrics").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    begun = time.monotonic()
    connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()

    assert answer.headers["Content-Type"] == OPEN_METRICS
    assert text.endswith("# EOF\n")
    assert time.monotonic() - begun < 1
