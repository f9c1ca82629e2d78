"""The files of the NVIDIA driver that go into a container: told by the toolkit where it is installed, else by the linker's cache.

The toolkit is asked first because only it has the hooks that refresh the container's own linker cache, and because its list follows
the driver. Without it the driver's libraries (those whose file name ends in the driver's version) are mounted where they lie, under
the names that programs link to; that is enough for images whose linker looks there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from migctl.programs import ask, find_program, with_system_path
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
_TIMEOUT_S = 60.0


def driver_edits(environ: Mapping[str, str], root: Path = Path("/")) -> DriverEdits:
    """The edits for any container with a GPU; empty ones where neither the toolkit nor the linker's cache knows the driver."""
    system = with_system_path(environ)
    return _ask_toolkit(system) or _from_cache(system, root)


def _ask_toolkit(system: Mapping[str, str]) -> DriverEdits | None:
    answer = ask(["nvidia-ctk", "cdi", "generate", "--format=json"], system, _TIMEOUT_S)
    try:
        spec = json.loads(answer.output) if answer.ok else None
    except ValueError:
        return None
    edits = toolkit_edits(spec) if isinstance(spec, dict) else None
    return edits if edits is not None and edits.mounts else None


def _from_cache(system: Mapping[str, str], root: Path) -> DriverEdits:
    answer = ask(["ldconfig", "-p"], system, _TIMEOUT_S)
    mounts = [mount_edit(mount) for mount in cached_libraries(answer.output if answer.ok else "", root)]
    for name in PROGRAMS:
        program = find_program(name, system)
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
