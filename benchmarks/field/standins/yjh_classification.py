"""Stand-in for image_classification_pytorch: a folder of photo-like JPEGs in five classes."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ["daisy", "dandelion", "roses", "sunflowers", "tulips"]
COUNTS = {"train": 64, "val": 16}  # of each class


def picture(rng: np.random.Generator, label: int) -> Image.Image:
    """Return a smooth picture of about 500 x 375 with blobs in the class's colour."""
    width, height = int(rng.integers(320, 640)), int(rng.integers(240, 500))
    coarse = rng.integers(0, 256, size=(9, 12, 3), dtype=np.uint8)
    base = np.asarray(
        Image.fromarray(coarse).resize((width, height), Image.BICUBIC), dtype=np.float32
    )
    rows, columns = np.mgrid[0:height, 0:width]
    colour = np.array(
        [[230, 230, 230], [240, 210, 30], [200, 20, 60], [250, 150, 10], [200, 80, 220]]
    )
    for _ in range(3 + label):
        at = rng.uniform(0.2, 0.8, size=2) * (height, width)
        radius = rng.uniform(0.06, 0.15) * height
        inside = (rows - at[0]) ** 2 + (columns - at[1]) ** 2 < radius**2
        base[inside] = 0.3 * base[inside] + 0.7 * colour[label]
    noisy = base + rng.normal(0, 8, size=base.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def main() -> None:
    """Write 64 training and 16 validation pictures for each of the five classes."""
    folder = Path(sys.argv[1]) / "data"
    for number, (split, count) in enumerate(COUNTS.items()):
        rng = np.random.default_rng(110 + number)
        for label, name in enumerate(CLASSES):
            where = folder / split / name
            where.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                picture(rng, label).save(where / f"{at:03d}.jpg", quality=90)


if __name__ == "__main__":
    main()
