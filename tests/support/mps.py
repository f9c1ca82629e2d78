"""A stand-in for nvidia-cuda-mps-control: a daemon by its pipe directory, as NVIDIA's manual page tells, and no more kindly."""

from __future__ import annotations

from pathlib import Path

CONTROL = """#!/bin/sh
: "${CUDA_MPS_PIPE_DIRECTORY:=/tmp/nvidia-mps}"
pids=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
alive() { [ -e "$pids" ] && kill -0 "$(cat "$pids")" 2>/dev/null; }
case $1 in
-d)
    [ -z "$MPS_REFUSES" ] || { echo "Cannot start: $MPS_REFUSES" >&2; exit 1; }
    [ -d "$CUDA_MPS_PIPE_DIRECTORY" ] && [ -d "$CUDA_MPS_LOG_DIRECTORY" ] || { echo "no such directory" >&2; exit 1; }
    alive && { echo "An instance of this daemon is already running"; exit 1; }
    echo "start $CUDA_VISIBLE_DEVICES" >>"$MPS_LOG"
    setsid "$0" --serve </dev/null >/dev/null 2>&1 & ;;
--serve)
    echo $$ >"$pids"
    trap 'rm -f "$pids"; echo "end $CUDA_VISIBLE_DEVICES" >>"$MPS_LOG"; exit 0' TERM
    while :; do sleep 0.05; done ;;
*)
    read -r word
    alive || { echo "Cannot find MPS control daemon process"; exit 1; }
    [ "$word" = quit ] && [ -z "$MPS_STAYS" ] && kill -TERM "$(cat "$pids")" ;;
esac
"""


def install(folder: Path) -> Path:
    """The stand-in in this folder, for PATH."""
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(CONTROL)
    program.chmod(0o755)
    return folder
