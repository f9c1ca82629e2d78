"""Images for a training: decoded, cropped, flipped and made into tensors by the loader's workers, with Pillow alone."""

from __future__ import annotations

import io
import random
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""The usual ones of ImageNet: https://docs.pytorch.org/vision/stable/models.html"""


def prepared(image: Image.Image, size: int) -> Tensor:
    """A random crop of at least half of the picture, flipped at random, scaled to `size` × `size`, normalised: 3 × size × size."""
    image = image.convert("RGB")
    part = random.uniform(0.5, 1.0) ** 0.5  # of each side, so that the area is at least half
    width, height = max(1, int(image.width * part)), max(1, int(image.height * part))
    left, top = random.randint(0, image.width - width), random.randint(0, image.height - height)
    image = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(size, size, 3).permute(2, 0, 1)
    return (pixels.float() / 255).sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1))


class SyntheticImages(Dataset[tuple[Tensor, int]]):
    """Pictures made up here, kept as JPEG: decoding them is the work that real ones make, and no download is needed.

    Args:
        count: samples of an epoch.
        classes: each has colours of its own, so that there is something to learn.
        stored: pixels a side of the stored picture.
        size: pixels a side of the sample.
    """

    DISTINCT = 64

    def __init__(self, count: int, classes: int = 8, stored: int = 320, size: int = 224) -> None:
        self.count, self.size = count, size
        self.classes = [f"class{number}" for number in range(classes)]
        chance = random.Random(0)
        self.pictures = [self._picture(chance, number % classes, stored) for number in range(self.DISTINCT)]

    def _picture(self, chance: random.Random, label: int, stored: int) -> bytes:
        coarse = Image.frombytes("RGB", (16, 16), chance.randbytes(16 * 16 * 3))
        colour = Image.new("RGB", (16, 16), tuple(random.Random(label).choices(range(256), k=3)))
        picture = Image.blend(coarse, colour, 0.5).resize((stored, stored), Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=90)
        return buffer.getvalue()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = index % self.DISTINCT
        with Image.open(io.BytesIO(self.pictures[number])) as image:
            return prepared(image, self.size), number % len(self.classes)


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """Pictures of a folder with one folder a class: ROOT/cat/1.jpg, ROOT/dog/2.png, ….

    Raises:
        SystemExit: there is no such folder, or no picture in it.
    """

    def __init__(self, root: Path, size: int = 224) -> None:
        self.size = size
        self.classes = sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
        self.samples = [
            (str(path), label)
            for label, name in enumerate(self.classes)
            for path in sorted((root / name).rglob("*"))
            if path.suffix.lower() in SUFFIXES
        ]
        if not self.samples:
            raise SystemExit(f"{root}: no pictures; expected one folder a class: {root}/CLASS/PICTURE.jpg")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.samples[index]
        with Image.open(path) as image:
            return prepared(image, self.size), label
