"""Adds 22 made colour photographs (JPEG, the sizes of the repository's own two) to
data/original/colored. A picture is a sum of soft gradients, edged shapes and fine texture, so
that it compresses like a photo.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

SIZES = [(1000, 680), (680, 1000), (1000, 750), (281, 190)]


def picture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """One made photograph."""
    coarse = rng.uniform(30, 220, (6, 5, 3)).astype(np.float32)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(25):
        centre = (int(rng.integers(width)), int(rng.integers(height)))
        axes = (int(rng.integers(10, width // 4)), int(rng.integers(10, height // 4)))
        colour = tuple(float(v) for v in rng.uniform(0, 255, 3))
        cv2.ellipse(image, centre, axes, float(rng.uniform(0, 180)), 0, 360, colour, -1)
    texture = cv2.GaussianBlur(
        rng.normal(0, 25, (height, width, 3)).astype(np.float32), (0, 0), 1.5
    )
    return np.clip(image + texture, 0, 255).astype(np.uint8)


def main(checkout: Path) -> None:
    """Write the files made_00.jpg to made_21.jpg."""
    rng = np.random.default_rng(17)
    for number in range(22):
        height, width = SIZES[number % len(SIZES)]
        path = checkout / f"data/original/colored/made_{number:02}.jpg"
        cv2.imwrite(str(path), picture(rng, height, width), [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
