"""The kind of device behind a folder: NVMe, SSD or hard disk, by what the kernel says of it and never by a guess."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from migctl.core.choices import Storage
from migctl.core.storage import DataDevice

_ROOT = Path("/")
_DEEPEST = 8
"""Devices on devices: encryption on a volume on a RAID has three."""
_NO_DISK = {
    "overlay": "an overlay of layers, as in an image",
    "tmpfs": "memory (tmpfs)",
    "ramfs": "memory (ramfs)",
    "nfs": "a network file system (nfs)",
    "nfs4": "a network file system (nfs4)",
    "cifs": "a network file system (cifs)",
    "smb3": "a network file system (smb3)",
    "9p": "the host's folder in a virtual machine (9p)",
    "virtiofs": "the host's folder in a virtual machine (virtiofs)",
    "btrfs": "a file system over its own choice of devices (btrfs)",
    "zfs": "a file system over its own choice of devices (zfs)",
}
"""File systems without a block device of their own (major number 0)."""
_VIRTUAL_VENDORS = ("QEMU", "VMware", "VBOX", "Msft", "Google", "Xen", "Nutanix", "Red Hat")
"""SCSI vendors of virtual disks: whether they say that they rotate is up to the hypervisor, not to the disk below."""
_VIRTUAL_MODELS = (
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "MSFT NVMe Accelerator",
    "VBOX HARDDISK",
    "QEMU",
    "Virtual",
)
"""Models of disks that lie behind a network or a hypervisor although they speak NVMe or ATA.

Sources: docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html; cloud.google.com/compute/docs/disks/enable-nvme;
learn.microsoft.com/azure/virtual-machines/nvme-overview; QEMU's default model strings.
"""


def device_behind(path: str, root: Path = _ROOT) -> DataDevice:
    """What the folder lies on.

    Args:
        path: absolute, on this machine.
        root: where /sys and /proc are.
    """
    try:
        number = os.stat(path).st_dev  # noqa: PTH116 -- the path is a plain string
    except OSError as error:
        return DataDevice(path=path, kind=None, what=f"it cannot be read: {error.strerror}")
    return device_of(os.major(number), os.minor(number), path, root)


def device_of(major: int, minor: int, path: str, root: Path = _ROOT) -> DataDevice:
    """The device with this number; through partitions, and through device mapper and RAID where all below is of one kind."""
    if major == 0:
        kind = _file_system(major, minor, root)
        return DataDevice(path=path, kind=None, what=_NO_DISK.get(kind, f"no block device of its own ({kind})"))
    found = _block(os.path.realpath(f"{root}/sys/dev/block/{major}:{minor}"), _DEEPEST)
    return DataDevice(path=path, kind=found.kind, what=found.what)


@dataclass(frozen=True, slots=True)
class _Block:
    kind: Storage | None
    what: str


def _block(folder: str, depth: int) -> _Block:
    if not os.path.isdir(folder):  # noqa: PTH112 -- as above
        return _Block(None, "the kernel does not describe its device")
    disk = os.path.dirname(folder) if os.path.exists(f"{folder}/partition") else folder  # noqa: PTH110, PTH120 -- as above
    name = os.path.basename(disk)  # noqa: PTH119 -- as above
    below = _below(disk)
    if below and depth:
        parts = [_block(one, depth - 1) for one in below]
        kinds = {part.kind for part in parts}
        if len(kinds) == 1:
            return _Block(parts[0].kind, f"{name} on {', '.join(dict.fromkeys(part.what for part in parts))}")
        return _Block(None, f"{name} on devices of several kinds: {', '.join(part.what for part in parts)}")
    if name.startswith("nvme"):
        return _nvme(disk, name)
    if name.startswith("sd"):
        return _scsi(disk, name)
    if name.startswith(("vd", "xvd")):
        return _Block(None, f"{name}, a virtual disk")
    return _Block(None, f"{name}, whose kind the kernel does not tell")


def _below(disk: str) -> list[str]:
    try:
        return [os.path.realpath(f"{disk}/slaves/{name}") for name in sorted(os.listdir(f"{disk}/slaves"))]  # noqa: PTH208 -- as above
    except OSError:
        return []


def _nvme(disk: str, name: str) -> _Block:
    model = _read(f"{disk}/device/model")
    if _virtual(model):
        return _Block(None, f"{name}, a virtual disk ({model})")
    # With native multipath `device` is the subsystem, and the controllers with their transports lie below it.
    transports = {_read(f"{disk}/device/transport"), *(_read(path) for path in _controllers(disk))} - {""}
    if transports - {"pcie", "apple-nvme"}:
        return _Block(None, f"{name}, NVMe over a network ({', '.join(sorted(transports))})")
    return _Block(Storage.NVME, name)


def _controllers(disk: str) -> list[str]:
    try:
        names = os.listdir(f"{disk}/device")  # noqa: PTH208 -- as above
    except OSError:
        return []
    return [f"{disk}/device/{name}/transport" for name in names if name.startswith("nvme")]


def _scsi(disk: str, name: str) -> _Block:
    model, vendor = _read(f"{disk}/device/model"), _read(f"{disk}/device/vendor")
    if vendor.startswith(_VIRTUAL_VENDORS) or _virtual(model):
        return _Block(None, f"{name}, a virtual disk ({vendor} {model})")
    for part, words in (
        ("/session", "a disk behind a network (iSCSI)"),
        ("/rport-", "a disk behind a network (Fibre Channel)"),
        ("/usb", "a USB disk, which does not say what it is"),
    ):
        if part in disk:
            return _Block(None, f"{name}, {words}")
    match _read(f"{disk}/queue/rotational"):
        case "0":
            return _Block(Storage.SSD, name)
        case "1":
            return _Block(Storage.HDD, name)
    return _Block(None, f"{name}, whose kind the kernel does not tell")


def _virtual(model: str) -> bool:
    return any(word in model for word in _VIRTUAL_MODELS)


def _file_system(major: int, minor: int, root: Path) -> str:
    """The type of the mounted file system with this number (proc_pid_mountinfo(5))."""
    for line in _read(f"{root}/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == f"{major}:{minor}" and after:
            return after.split()[0]
    return "unknown file system"


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
