"""The part of a cluster's job script that counts workers and threads from the CPUs that the job really has."""

from __future__ import annotations

from migctl.core.choices import Storage
from migctl.core.cluster.clusterjobs import Group
from migctl.core.handover import THREAD_VARIABLES
from migctl.render.shell_words import wrapped

_COUNT = r"""
# Workers and threads follow from the CPUs that this job really has, since the node chooses them.
MIGCTL_CPUSET=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
_cpus=$(for range in $(echo "$MIGCTL_CPUSET" | tr , ' '); do seq "${range%-*}" "${range#*-}"; done)
MIGCTL_CPUS=$(echo "$_cpus" | wc -l)
_cores=$(for cpu in $_cpus; do
    cat "/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" 2>/dev/null || echo "$cpu"
done | sort -u | wc -l)
"""

_LIMIT = r"""
# A node that does not pin shows all its CPUs; then the limit says how many of them the job can use.
if [ "$MIGCTL_CPUS" -gt "${MIGCTL_CPU_LIMIT:-$MIGCTL_CPUS}" ]; then
    _cores=$((_cores * MIGCTL_CPU_LIMIT / MIGCTL_CPUS))
    MIGCTL_CPUS=$MIGCTL_CPU_LIMIT
    [ "$_cores" -gt 0 ] || _cores=1
fi
"""


def share_script(group: Group, own: frozenset[str], *, limited: bool) -> str:
    """Shell lines that set `MIGCTL_CPUS`, `MIGCTL_CPUSET`, `MIGCTL_NUM_WORKERS` and the thread variables.

    Args:
        group: the jobs.
        own: variables that the jobs set themselves.
        limited: whether `MIGCTL_CPU_LIMIT` may be lower than what the affinity allows (a CPU quota).
    """
    assigned = [f"{name}=$_threads" for name in THREAD_VARIABLES if name not in own]
    assigned += ["PYTHON_CPU_COUNT=$MIGCTL_CPUS"] if "PYTHON_CPU_COUNT" not in own else []
    return (
        _COUNT.removeprefix("\n")
        + (_LIMIT.removeprefix("\n") if limited else "")
        + f"MIGCTL_NUM_WORKERS={_workers(group)}\n"
        + "_threads=$((MIGCTL_NUM_WORKERS > 1 ? _cores / MIGCTL_NUM_WORKERS : _cores))\n"
        + '[ "$_threads" -gt 0 ] || _threads=1\n'
        + "export MIGCTL_CPUSET MIGCTL_CPUS MIGCTL_NUM_WORKERS\n"
        + (wrapped("export", assigned, width=100) + "\n" if assigned else "")
    )


def _workers(group: Group) -> str:
    """The rule of `core.cpu.workers.num_workers` in shell arithmetic."""
    job = group.first
    if job.num_workers is not None:
        return str(job.num_workers)
    match job.storage:
        case Storage.NVME:
            quarter_more = "(_cores * 5 + 3) / 4"
            smt = f"({quarter_more} < MIGCTL_CPUS ? {quarter_more} : MIGCTL_CPUS)"
            return f"$((MIGCTL_CPUS > _cores ? {smt} : (_cores >= 4 ? _cores + 1 : _cores)))"
        case Storage.HDD:
            return "$((_cores > 1 ? _cores / 2 : 1))"
        case Storage.SSD | Storage.AUTO | None:
            return "$_cores"
