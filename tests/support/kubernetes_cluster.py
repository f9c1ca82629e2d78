"""A cluster of a test's own behind a stand-in for kubectl, and what happens in it by other hands than migctl's."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import kubectl_program

ROOT = Path(__file__).parents[2]
SLICE = "nvidia.com/mig-1g.5gb"


def _schema() -> Path:
    """Definitions of every kind, as Kubernetes 1.36 publishes them."""
    found = importlib.util.find_spec("kubernetes_validate")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "kubernetes-json-schema" / "v1.36.0-local-strict" / "_definitions.json"


def node(
    name: str,
    devices: dict[str, int] | None = None,
    *,
    cpus: int = 32,
    memory: str = "256Gi",
    product: str = "NVIDIA-A100-SXM4-40GB",
    **spec: Any,
) -> Any:
    """A node with GPUs, as GPU feature discovery labels it; `taints` and `unschedulable` as in its spec."""
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed"}
    offered = {name: str(amount) for name, amount in (devices or {SLICE: 3}).items()}
    allocatable = {"cpu": str(cpus), "memory": memory, **offered}
    metadata = {"name": name, "labels": labels}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


class KubernetesCluster:
    """Its objects lie in a file; `environ` makes a program find it."""

    def __init__(self, folder: Path, *nodes: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "cluster.json"
        self.bin = folder / "bin"
        self.bin.mkdir()
        program = Path(kubectl_program.__file__)
        # Without site-packages, whose search takes longer than all else; what checks manifests asks for them.
        starter = f"#!{sys.executable} -S\nimport runpy, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        (self.bin / "kubectl").write_text(f"{starter}runpy.run_path({str(program)!r}, run_name='__main__')\n")
        (self.bin / "kubectl").chmod(0o755)
        self.write(
            {
                "objects": [],
                # Of a failed pod's successor, doubled each time; 10 s in a cluster (pkg/controller/job).
                "back_off_s": 0.5,
                "nodes": list(nodes) or [node("n1")],
                "namespaces": ["default", "lab"],
                "contexts": {"lab-cluster": {"namespace": "lab"}, "other": {}},
                "current": "lab-cluster",
                "forbidden": [],
                "failing": {},
                "bad_images": {},
                "job_quota": None,
                "pod_refusal": "",
                "stubborn": False,
                "dra": True,
                "kueue": False,
                "logs": {},
                "log_times": {},
                "calls": [],
                "schema": str(_schema()),
            }
        )

    def environ(self, path: str) -> dict[str, str]:
        """Variables for a program that is to talk to it."""
        return {"PATH": f"{self.bin}:{path}", "KUBECTL_CLUSTER": str(self.file)}

    def read(self) -> Any:
        """All of its state."""
        return json.loads(self.file.read_text("utf-8"))

    def write(self, state: Any) -> None:
        """The whole state anew."""
        self.file.write_text(json.dumps(state), "utf-8")

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """The state, to be changed while no kubectl reads it."""
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            yield state
            self.write(state)

    def set(self, **values: Any) -> None:
        """Change what the cluster is like."""
        with self.changing() as state:
            assert set(values) <= set(state)
            state.update(values)

    def objects(self, kind: str) -> list[Any]:
        """What there is of a kind, as the controllers have left it."""
        with self.changing() as state:
            kubectl_program.Cluster(state).settle()
        return [one for one in self.read()["objects"] if one["kind"] == kind]

    def names(self, kind: str) -> list[str]:
        """Names of what there is of a kind."""
        return [one["metadata"]["name"] for one in self.objects(kind)]

    def end(
        self, job: str, code: int = 0, index: int | None = None, *, reason: str = "", log: str = "", **more: Any
    ) -> None:
        """The running pod of a Job ends."""
        with self.changing() as state:
            cluster = kubectl_program.Cluster(state)
            cluster.settle()
            pod = next(
                o
                for o in state["objects"]
                if o["kind"] == "Pod"
                and o["status"]["phase"] == "Running"
                and o["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job
                and (index is None or o["metadata"]["annotations"][kubectl_program.INDEX] == str(index))
            )
            begun = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
            ended = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "startedAt": begun}
            ended["finishedAt"] = kubectl_program.now()
            pod["status"]["phase"] = "Failed" if code else "Succeeded"
            pod["status"]["containerStatuses"] = [{"name": "job", "state": {"terminated": ended}}]
            pod["status"].update(more)
            if log:
                kubectl_program.write(state, pod["metadata"]["name"], log)
            cluster.settle()

    def say(self, job: str, log: str, index: int | None = None) -> None:
        """The running pod of a Job has written this."""
        with self.changing() as state:
            kubectl_program.Cluster(state).settle()
            for pod in state["objects"]:
                labels = pod["metadata"].get("labels", {})
                same = pod["metadata"].get("annotations", {}).get(kubectl_program.INDEX) == str(index)
                if (
                    pod["kind"] == "Pod"
                    and labels.get("batch.kubernetes.io/job-name") == job
                    and (index is None or same)
                ):
                    kubectl_program.write(state, pod["metadata"]["name"], log)

    def calls(self, verb: str) -> list[list[str]]:
        """The command lines of this verb, oldest first."""
        return [words for words in self.read()["calls"] if verb in words]
