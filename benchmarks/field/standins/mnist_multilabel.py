"""Stand-in for Multi-Label-Classification-with-MNIST-Digits: composite pictures of made digits."""

import sys
from pathlib import Path

import numpy as np
import torch

SIZES = {"train": 768, "val": 256, "test": 256, "gen_data/train": 768}
SEGMENTS = [
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
]


def digit(rng: np.random.Generator, which: int) -> np.ndarray:
    """Return a 28 x 28 digit of seven strokes, shifted and of varying thickness."""
    picture = np.zeros((28, 28), dtype=np.float32)
    thick, left, right = int(rng.integers(2, 4)), int(rng.integers(6, 9)), int(rng.integers(18, 21))
    rows = (4, 13, 22)
    top, upper_left, upper_right, middle, lower_left, lower_right, bottom = (
        bit == "1" for bit in SEGMENTS[which]
    )
    for on, row in ((top, rows[0]), (middle, rows[1]), (bottom, rows[2])):
        if on:
            picture[row : row + thick, left : right + thick] = 1
    for on, first, last, column in (
        (upper_left, rows[0], rows[1], left),
        (upper_right, rows[0], rows[1], right),
        (lower_left, rows[1], rows[2], left),
        (lower_right, rows[1], rows[2], right),
    ):
        if on:
            picture[first : last + thick, column : column + thick] = 1
    return picture * rng.uniform(0.6, 1.0)


def main() -> None:
    """Write the four splits: 64 x 64 pictures of 6 to 8 digits and which of the ten are in them."""
    folder = Path(sys.argv[1]) / "data"
    (folder / "gen_data").mkdir(exist_ok=True)
    for number, (name, count) in enumerate(SIZES.items()):
        rng = np.random.default_rng(61 + number)
        images = np.zeros((count, 64, 64), dtype=np.float32)
        labels = np.zeros((count, 10), dtype=np.float32)
        for at in range(count):
            for which in rng.integers(0, 10, size=rng.integers(6, 9)):
                row, column = rng.integers(0, 37, size=2)
                spot = images[at, row : row + 28, column : column + 28]
                np.maximum(spot, digit(rng, int(which)), out=spot)
                labels[at, which] = 1
        images += rng.normal(0, 0.05, size=images.shape).astype(np.float32)
        whole = torch.from_numpy((images.clip(0, 1) * 255).astype(np.uint8))
        torch.save({"images": whole, "labels": torch.from_numpy(labels)}, folder / f"{name}.pt")


if __name__ == "__main__":
    main()
