"""`up` and `down` of seven containers, against a shell, a bare SDK script and `docker rm -f`, within one run.

Usage: .venv/bin/python scripts/bench/up.py [ROUNDS]. Uses DOCKER_HOST, or as root starts an engine of its own.
Exit 1: a target is missed.
"""

from __future__ import annotations

import subprocess
import sys

from machine import IMAGE, delays, place
from rounds import MIGCTL, ROOT, Case, command, line, rotate, table, timed

PLAN = "compose/plans/seven.yaml"
NAMES = [f"bench-{number}" for number in range(7)]
CREATE_S, DESTROY_S = 0.3, 1.0
"""What a GPU or compute instance takes on an A100, about."""
RUN = f'docker run -d --init --cpuset-cpus 0 --name "$name" {IMAGE} sh -c "trap \'exit 0\' TERM; sleep 1d & wait"'


def main(rounds: int) -> int:
    with place() as environ:
        up = command(*MIGCTL, "up", PLAN, environ=environ)
        down = command(*MIGCTL, "down", environ=environ)
        loop = f"for name in {' '.join(NAMES)}; do {RUN}"
        remove = command("docker", "rm", "-f", *NAMES, environ=environ)
        parallel = command("sh", "-c", f"{loop} & done; wait", environ=environ)

        # Measured as the other half of an up, so never run by themselves.
        down_case, remove_case = Case("migctl down", down), Case("docker rm -f", remove)
        cases = [
            Case("migctl up", up, after=lambda: down_case.seen.append(down())),
            Case("docker run, parallel", parallel, after=lambda: remove_case.seen.append(remove())),
            Case("docker run, in sequence", command("sh", "-c", f"{loop}; done", environ=environ), after=remove),
            Case(
                "bare SDK script",
                command(sys.executable, "scripts/bench/sdk.py", IMAGE, *NAMES, environ=environ),
                after=remove,
            ),
            Case("migctl status, nothing there", command(*MIGCTL, "status", environ=environ)),
            Case(
                "one docker run",
                lambda: timed(["sh", "-c", f"name=bench-0; {RUN}"], environ),
                after=lambda: timed(["docker", "rm", "-f", "bench-0"], environ),
            ),
        ]
        rotate(cases, rounds)
        migctl, shell, sequence, sdk, start, single = cases
        del down_case.seen[0], remove_case.seen[0]  # the round that warms
        table([*cases, down_case, remove_case])
        good = [
            line("up / seven docker run in parallel", migctl.wall_s / shell.wall_s, 1.5),
            line("up − bare SDK script", migctl.wall_s - sdk.wall_s, 0.25, "s"),
            line("down / (docker rm -f + start-up)", down_case.wall_s / (remove_case.wall_s + start.wall_s), 1.5),
            line("memory of up", migctl.peak_mib, 80, "MiB"),
        ]
        print(f"      for comparison: up / seven docker run in sequence: {migctl.wall_s / sequence.wall_s:.2f} ×")

        delays(environ, create=CREATE_S, destroy=DESTROY_S)
        slow = Case("migctl up, hardware's times", up, after=down)
        rotate([slow], max(1, rounds // 2))
        delays(environ)
        table([slow])
        serial_s = 7 * 2 * CREATE_S  # a GPU and a compute instance each
        good.append(
            line(
                "up with hardware's times − serial NVML − one container",
                slow.wall_s - serial_s - single.wall_s,
                0.5,
                "s",
            )
        )
        subprocess.run(["docker", "rm", "-f", *NAMES], env=environ, capture_output=True, check=False, cwd=ROOT)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
