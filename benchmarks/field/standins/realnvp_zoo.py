"""Stand-in data for caetas/GenerativeZoo: MNIST's four files with 640 + 64 drawn digits."""

import itertools
import struct
import sys
from pathlib import Path

import numpy as np


def digits(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw bright strokes of a few turns on black, about a fifth of the pixels lit."""
    rows, columns = np.mgrid[0:28, 0:28]
    pictures = np.zeros((count, 28, 28))
    for picture in pictures:
        turns = np.cumsum(rng.normal(0, 2.5, (7, 2)), axis=0)
        turns = np.clip(turns - turns.mean(axis=0) + 13.5, 5, 22)
        for start, end in itertools.pairwise(turns):
            for step in np.linspace(0, 1, 6):
                y, x = start + step * (end - start)
                glow = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 1.6)
                np.maximum(picture, 255 * glow, out=picture)
    return pictures.astype(np.uint8)


def main() -> None:
    """Write data/raw/MNIST/raw/*-ubyte (so that nothing is downloaded)."""
    folder = Path(sys.argv[1]) / "data" / "raw" / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    for part, count in (("train", 640), ("t10k", 64)):
        images = digits(rng, count)
        labels = rng.integers(0, 10, count).astype(np.uint8)
        head = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = struct.pack(">II", 2049, count)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


if __name__ == "__main__":
    main()
