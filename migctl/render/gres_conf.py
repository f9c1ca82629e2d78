"""The lines of gres.conf and slurm.conf that let Slurm give out a layout, for the cluster's administrator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from migctl.core.views.gres import GresDevice


def gres_conf(types: Mapping[str, str], counts: Mapping[str, int], devices: Sequence[GresDevice]) -> list[str]:
    """Comment-free lines with their remarks; Slurm gives out what is there and partitions nothing itself.

    Args:
        types: profile → the GRES type that the scripts ask for.
        counts: profile → how many a node has, as planned; nothing where that is not known.
        devices: what is on the node now.
    """
    gres = ",".join(f"gpu:{kind}:{counts.get(profile, 'COUNT')}" for profile, kind in types.items())
    lines = [
        "For the administrator: Slurm gives out MIG devices that are there, and makes none (migctl export mig-parted does).",
        f"The types {', '.join(dict.fromkeys(types.values()))} are of this site: `sinfo -N -h -o '%N %G'` lists what there is.",
        "slurm.conf:",
        "    GresTypes=gpu",
        f"    NodeName=NODE Gres={gres}",
        f"    AccountingStorageTRES={','.join(dict.fromkeys(f'gres/gpu:{kind}' for kind in types.values()))}",
        "gres.conf, where slurmd was built with NVML; a Type is any part of the name that it detects:",
        "    AutoDetect=nvml",
        "gres.conf, where it was not (Debian's slurmd): each device by its files (/proc/driver/nvidia-caps/mig-minors):",
    ]
    known = [device for device in devices if device.files]
    if not known:
        lines += [
            f"    Name=gpu Type={types[profile]} "
            "MultipleFiles=/dev/nvidiaN,/dev/nvidia-caps/nvidia-capGI,/dev/nvidia-caps/nvidia-capCI"
            "    # a line for each"
            for profile in types
        ]
    lines += [
        f"    Name=gpu Type={types.get(device.profile, device.profile)} MultipleFiles={','.join(device.files)}"
        for device in known
    ]
    return lines


def counted(profiles: Sequence[str]) -> dict[str, int]:
    """Profile → how many, in their order."""
    return dict(Counter(profiles))
