"""Writes CUB_200_2011's layout: 400 JPEG of birds (500 x 375 or turned), boxes, classes, lists."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = 200
PER_CLASS = 2


def bird(rng: np.random.Generator, kind: int) -> tuple[Image.Image, tuple[int, ...]]:
    """One bird on leaves and sky, and its box x, y, width, height."""
    size = (500, 375) if rng.random() < 0.7 else (375, 500)
    coarse = rng.integers(40, 216, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    grain = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    image = Image.blend(image, grain.filter(ImageFilter.GaussianBlur(1)), 0.25)
    width, height = (int(s * rng.uniform(0.35, 0.7)) for s in size)
    x, y = (int(rng.uniform(0, s - b)) for s, b in zip(size, (width, height), strict=True))
    colour = tuple(int(c) for c in np.random.default_rng(kind).integers(20, 236, 3))
    draw = ImageDraw.Draw(image)
    draw.ellipse((x, y + height // 4, x + width * 3 // 4, y + height), fill=colour)
    draw.ellipse((x + width // 2, y, x + width, y + height // 2), fill=colour[::-1])
    return image, (x, y, width, height)


def main(checkout: Path) -> None:
    """Write the pictures and the three lists."""
    root = checkout / "standin/CUB_200_2011"
    rng = np.random.default_rng(5)
    lists: dict[str, list[str]] = {"images": [], "bounding_boxes": [], "image_class_labels": []}
    for number in range(1, CLASSES * PER_CLASS + 1):
        kind = (number - 1) // PER_CLASS + 1
        path = Path(f"{kind:03d}.Bird/Bird_{number:04d}.jpg")
        image, box = bird(rng, kind)
        (root / "images" / path.parent).mkdir(parents=True, exist_ok=True)
        image.save(root / "images" / path, quality=92)
        lists["images"].append(f"{number} {path}")
        lists["bounding_boxes"].append(f"{number} {' '.join(f'{v:.1f}' for v in box)}")
        lists["image_class_labels"].append(f"{number} {kind}")
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
