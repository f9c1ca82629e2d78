"""The files of the NVIDIA driver that go into a container: told by the toolkit where it is installed, else by the linker's cache.

The toolkit is asked first because only it has the hooks that refresh the container's own linker cache, and because its list follows
the driver. Without it the driver's libraries (those whose file name ends in the driver's version) are mounted where they lie, under
the names that programs link to; that is enough for images whose linker looks there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from migctl.runtimes.cdi_spec import DriverEdits, Mount, mount_edit, toolkit_edits

PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
"""What the toolkit mounts for the capabilities "utility" and "compute" (NVIDIA/libnvidia-container, src/nvc_info.c)."""
LIBRARIES = (
    "libcuda",
    "libcudadebugger",
    "libnvidia-ml",
    "libnvidia-cfg",
    "libnvidia-nvvm",
    "libnvidia-opencl",
    "libnvidia-gpucomp",
    "libnvidia-ptxjitcompiler",
    "libnvidia-allocator",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
    "libnvidia-nscq",
)
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT_S = 60.0


def driver_edits(environ: Mapping[str, str], root: Path = Path("/")) -> DriverEdits:
    """The edits for any container with a GPU; empty ones where neither the toolkit nor the linker's cache knows the driver."""
    path = f"{environ.get('PATH') or os.defpath}:{SEARCH}"
    toolkit = shutil.which("nvidia-ctk", path=path)
    if toolkit is not None:
        found = _ask_toolkit(toolkit, path)
        if found is not None:
            return found
    return _from_cache(path, root)


def _ask_toolkit(program: str, path: str) -> DriverEdits | None:
    text = _output([program, "cdi", "generate", "--format=json"], path)
    try:
        spec = json.loads(text)
    except ValueError:
        return None
    edits = toolkit_edits(spec) if isinstance(spec, dict) else None
    return edits if edits is not None and edits.mounts else None


def _from_cache(path: str, root: Path) -> DriverEdits:
    ldconfig = shutil.which("ldconfig", path=path)
    text = _output([ldconfig, "-p"], path) if ldconfig is not None else ""
    mounts = [mount_edit(mount) for mount in cached_libraries(text, root)]
    for name in PROGRAMS:
        program = shutil.which(name, path=path)
        if program is not None and mounts:
            mounts.append(mount_edit(Mount(host=program, container=f"/usr/bin/{name}")))
    return DriverEdits(source="the linker's cache", mounts=tuple(mounts))


def cached_libraries(text: str, root: Path = Path("/")) -> tuple[Mount, ...]:
    """The driver's libraries in the output of `ldconfig -p`, each under the name that programs link to and under its own.

    Only 64-bit ones of one driver: that of libcuda.
    """
    links = {
        match[1]: match[2]
        for match in re.finditer(r"^\s*(\S+) \(libc6,(?:x86-64|AArch64)[^)]*\) => (\S+)$", text, re.MULTILINE)
    }
    cuda = links.get("libcuda.so.1")
    if cuda is None:
        return ()
    version = _version(root, cuda)
    found: dict[str, Mount] = {}
    for soname, link in links.items():
        if soname.partition(".so")[0] not in LIBRARIES or (version and _version(root, link) not in (version, "")):
            continue
        target = _target(root, link)
        for inside in (link, str(Path(link).with_name(target.name))):
            found[inside] = Mount(host=str(target), container=inside)
    return tuple(found[inside] for inside in sorted(found))


def _target(root: Path, link: str) -> Path:
    return (root / link.lstrip("/")).resolve()


def _version(root: Path, link: str) -> str:
    """`580.65.06` of libcuda.so.580.65.06."""
    match = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", _target(root, link).name)
    return match[1] if match else ""


def _output(command: list[str], path: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
            env={**os.environ, "PATH": path},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
