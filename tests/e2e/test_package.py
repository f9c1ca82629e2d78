"""The wheel and the sdist: built, installed into an empty virtual environment, and used from there as pipx does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from migctl import __version__
from tests.support.program import ROOT


def run(*words: str | Path, **more: str) -> str:
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | more
    done = subprocess.run([*map(str, words)], env=environ, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_is_built_installs_and_runs_without_the_source(tmp_path: Path) -> None:
    if not all(has(name) for name in ("hatchling", "pip")):
        pytest.skip("hatchling and pip are needed, and not both of them are here")
    project = tmp_path / "project"
    shutil.copytree(
        ROOT,
        project,
        ignore=shutil.ignore_patterns(
            ".git", ".venv*", "__pycache__", "*.pyc", ".mypy_cache", ".hypothesis", ".coverage*"
        ),
    )
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "dist")],
        cwd=project,
        check=True,
        capture_output=True,
    )
    wheel = tmp_path / f"dist/migctl-{__version__}-py3-none-any.whl"
    sdist = tmp_path / f"dist/migctl-{__version__}.tar.gz"
    names = zipfile.ZipFile(wheel).namelist()
    assert {"migctl/nvml/boards.json", f"migctl-{__version__}.data/data/share/man/man1/migctl.1"} <= set(names)
    assert all(name.startswith(("migctl/", f"migctl-{__version__}.")) for name in names)
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "README.ko.md", "docs/guide.ko.md", "compose/plans/seven.yaml", "scripts/demo"} <= packed

    # An environment of its own, and the libraries of this one beside it: what pipx does, without a download.
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin/python",
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        wheel,
    )
    libraries = next(path for path in map(Path, sys.path) if (path / "typer").is_dir())
    site = next((venv / "lib").glob("python3*/site-packages"))
    (site / "libraries.pth").write_text(f"{libraries}\n", "utf-8")
    program = venv / "bin/migctl"
    assert run(program, "--version") == f"migctl {__version__}\n"
    where = run(venv / "bin/python", "-c", "import migctl; print(migctl.__file__)").strip()
    assert where.startswith(str(venv))
    table = run(program, "profiles", "--on", "a100-40gb", MIGCTL_STATE_DIR=str(tmp_path / "state"))
    assert "1g.5gb" in table
    assert (venv / "share/man/man1/migctl.1").is_file()


def has(name: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert project["tool"]["hatch"]["version"]["path"] == "migctl/__init__.py"
    assert "version" not in project["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"(?m)^## \[(.*?)\]", changelog)[-1] == __version__
