"""The lines by which a batch script tells of itself: Slurm forgets an ended job after minutes, and a node chooses the cores."""

from __future__ import annotations

from migctl.render.shell_words import word

BEGIN = "begin"
END = "end"
LOG = "log"
"""Endings of a job's files; their name is its id, `4711` or `4711_3`."""


def first_lines(folder: str) -> str:
    """Before anything else: from here on the script's end is written down however it comes."""
    return (
        f"_told={word(folder)}/${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${{SLURM_ARRAY_TASK_ID+_$SLURM_ARRAY_TASK_ID}}\n"
        '_tell() { printf \'%s\\n\' "$2" >"$_told.new" && mv -f "$_told.new" "$_told.$1"; }\n'
        f'rm -f "$_told.{END}"\n'
        f"trap '_tell {END} \"$? ${{stopped:-0}} $(date +%s)\"' EXIT\n"
    )


def at_begin() -> str:
    """When the job knows what it got."""
    return (
        f'\n_tell {BEGIN} "$(date +%s) ${{SLURMD_NODENAME:-$(hostname)}} $MIGCTL_CPUSET $MIGCTL_NUM_WORKERS'
        ' $MIGCTL_MIG_UUID"\n'
    )
