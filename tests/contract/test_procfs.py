"""Readers of /proc against trees as Linux shows them, and against this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.host.procfs import boot_id, memory_total_mib, process_start_ticks


def tree(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def test_boot_id_is_read_and_its_absence_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/sys/kernel/random/boot_id": "0c5a7a0e-7d4d"})

    assert boot_id(tmp_path) == "0c5a7a0e-7d4d"
    with pytest.raises(HostError) as caught:
        boot_id(tmp_path / "nowhere")
    assert caught.value.id == "no-boot-id"


def test_memory_is_in_mib_or_unknown(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB"})

    assert memory_total_mib(tmp_path) == 16
    assert memory_total_mib(tmp_path / "nowhere") is None


def test_start_time_survives_a_name_with_spaces_and_parentheses(tmp_path: Path) -> None:
    before = "R 1 2 2 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0"
    tree(tmp_path, {"proc/9/stat": f"9 (a) b (c)) {before} 123456 9999 1"})

    assert process_start_ticks(9, tmp_path) == 123456
    assert process_start_ticks(10, tmp_path) is None


def test_living_processes_have_a_start_time() -> None:
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        started = process_start_ticks(child.pid)
        own = process_start_ticks(os.getpid())

        assert started is not None
        assert own is not None
        assert started >= own
        child.communicate("")
    assert process_start_ticks(child.pid) is None
