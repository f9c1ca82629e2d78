"""The kind of device behind a folder, on /sys trees as Linux lays them out (Documentation/ABI/stable/sysfs-block)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.core.choices import Storage
from migctl.host.storage import device_behind, device_of

NUMBER = (8, 1)
PCI = "devices/pci0000:00/0000:00:1f.2"


@dataclass(frozen=True)
class Disk:
    """A block device below /sys: its folder, what its files say, and the devices that it lies on."""

    folder: str
    files: tuple[tuple[str, str], ...] = ()
    slaves: tuple[str, ...] = ()


def tree(root: Path, *disks: Disk, number: tuple[int, int] = NUMBER) -> Path:
    """The first device has the number; a `slaves` folder is there, empty, for every whole disk."""
    for disk in disks:
        folder = root / "sys" / disk.folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in disk.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n", "utf-8")
    for disk in disks:
        slaves = root / "sys" / disk.folder / "slaves"
        if not (root / "sys" / disk.folder / "partition").exists():
            slaves.mkdir()
        for below in disk.slaves:
            (slaves / Path(below).name).symlink_to(root / "sys" / below)
    links = root / "sys/dev/block"
    links.mkdir(parents=True)
    (links / f"{number[0]}:{number[1]}").symlink_to(root / "sys" / disks[0].folder)
    return root


def scsi(name: str, rotational: str, *, bus: str = "ata1/host0", vendor: str = "ATA", model: str = "ST8000NM") -> Disk:
    folder = f"{PCI}/{bus}/target0:0:0/0:0:0:0/block/{name}"
    return Disk(folder, (("queue/rotational", rotational), ("device/vendor", vendor), ("device/model", model)))


def nvme(name: str = "nvme0n1", *, transport: str = "pcie", model: str = "SAMSUNG MZQL23T8") -> Disk:
    folder = f"devices/pci0000:40/0000:40:01.1/0000:41:00.0/nvme/nvme0/{name}"
    return Disk(folder, (("queue/rotational", "0"), ("device/transport", transport), ("device/model", model)))


def part(disk: Disk, name: str) -> Disk:
    return Disk(f"{disk.folder}/{name}", (("partition", "1"),))


def mapped(name: str, *below: Disk) -> Disk:
    return Disk(f"devices/virtual/block/{name}", (("queue/rotational", "0"),), tuple(disk.folder for disk in below))


HDD, SSD, FLASH = scsi("sda", "1"), scsi("sdb", "0", bus="ata2/host1", model="Samsung SSD 870"), nvme()
SECOND = nvme("nvme1n1")
MULTIPATH = Disk(
    "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
    (("device/model", "PM1733"), ("device/nvme0/transport", "pcie"), ("device/nvme1/transport", "pcie")),
)
FABRIC = Disk(
    "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
    (("device/model", "Linux"), ("device/nvme0/transport", "tcp")),
)
P = part(FLASH, "nvme0n1p3")

KNOWN = {
    "sata disk": ([HDD], Storage.HDD, "sda"),
    "sata ssd": ([SSD], Storage.SSD, "sdb"),
    "partition of a disk": ([part(HDD, "sda1"), HDD], Storage.HDD, "sda"),
    "nvme": ([FLASH], Storage.NVME, "nvme0n1"),
    "partition of an nvme": ([P, FLASH], Storage.NVME, "nvme0n1"),
    "nvme with native multipath": ([MULTIPATH], Storage.NVME, "nvme0n1"),
    "LVM on a partition": ([mapped("dm-0", P), P, FLASH], Storage.NVME, "dm-0 on nvme0n1"),
    "LVM on LUKS on a partition": (
        [mapped("dm-1", mapped("dm-0", P)), mapped("dm-0", P), P, FLASH],
        Storage.NVME,
        "dm-1 on dm-0 on nvme0n1",
    ),
    "RAID of two nvme": ([mapped("md0", FLASH, SECOND), FLASH, SECOND], Storage.NVME, "md0 on nvme0n1, nvme1n1"),
}
UNKNOWN = {
    "an SSD as cache of a disk": ([mapped("dm-0", HDD, SSD), HDD, SSD], "several kinds"),
    "nvme over tcp": ([FABRIC], "over a network (tcp)"),
    "elastic block store": ([nvme(model="Amazon Elastic Block Store")], "virtual disk"),
    "persistent disk": ([nvme(model="nvme_card-pd")], "virtual disk"),
    "virtio": ([Disk("devices/pci0000:00/0000:00:02.0/virtio1/block/vda", (("queue/rotational", "1"),))], "virtual"),
    "xen": ([Disk("devices/vbd-51712/block/xvda", (("queue/rotational", "0"),))], "virtual"),
    "qemu's disk": ([scsi("sda", "1", vendor="QEMU", model="QEMU HARDDISK")], "virtual"),
    "vmware's disk": ([scsi("sda", "1", vendor="VMware", model="Virtual disk")], "virtual"),
    "iscsi": ([scsi("sda", "1", bus="host2/session1", vendor="LIO-ORG")], "iSCSI"),
    "fibre channel": ([scsi("sda", "0", bus="host2/rport-2:0-1", vendor="NETAPP")], "Fibre Channel"),
    "usb": ([scsi("sda", "1", bus="usb2/2-1/host4", vendor="SanDisk")], "USB"),
    "memory card": ([Disk("devices/platform/mmc0/block/mmcblk0", (("queue/rotational", "0"),))], "does not tell"),
    "compressed memory": ([mapped("zram0")], "does not tell"),
    "loop": ([mapped("loop0")], "does not tell"),
    "network block device": ([mapped("nbd0")], "does not tell"),
    "a disk that says nothing": ([Disk(f"{PCI}/ata1/host0/block/sda")], "does not tell"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_kernel_tells_the_kind(name: str, tmp_path: Path) -> None:
    disks, kind, what = KNOWN[name]

    found = device_of(*NUMBER, "/data", tree(tmp_path, *disks))

    assert (found.kind, found.what) == (kind, what)


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_the_kernel_does_not_tell_nothing_is_guessed(name: str, tmp_path: Path) -> None:
    disks, why = UNKNOWN[name]

    found = device_of(*NUMBER, "/data", tree(tmp_path, *disks))

    assert found.kind is None
    assert why in found.what


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("overlay", "an overlay"),
        ("nfs4", "network file system (nfs4)"),
        ("cifs", "network file system"),
        ("tmpfs", "memory"),
        ("btrfs", "its own choice of devices"),
        ("fuse.sshfs", "no block device of its own (fuse.sshfs)"),
        ("lustre", "no block device of its own (lustre)"),
    ],
)
def test_a_file_system_without_a_device_is_named(kind: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    lines = f"36 35 98:0 / / rw shared:1 - ext4 /dev/root rw\n41 36 0:52 / /data rw,relatime shared:20 - {kind} server:/x rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(lines, "utf-8")

    found = device_of(0, 52, "/data", tmp_path)

    assert found.kind is None
    assert why in found.what


def test_devices_that_lie_on_each_other_end(tmp_path: Path) -> None:
    one, two = "devices/virtual/block/dm-0", "devices/virtual/block/dm-1"

    found = device_of(*NUMBER, "/data", tree(tmp_path, Disk(one, slaves=(two,)), Disk(two, slaves=(one,))))

    assert found.kind is None


def test_nothing_is_known_of_a_device_that_sys_lacks_or_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert device_of(8, 99, "/data", tmp_path).what == "the kernel does not describe its device"
    assert device_behind(str(tmp_path / "gone")).what.startswith("it cannot be read: No such file")


def test_this_machine_answers_something(tmp_path: Path) -> None:
    found = device_behind(str(tmp_path))

    assert found.path == str(tmp_path)
    assert found.what
