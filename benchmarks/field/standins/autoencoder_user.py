"""Writes data/MNIST/raw/*-ubyte in MNIST's format: 18000 + 3000 images of pen strokes."""

import random
import struct
import sys
from pathlib import Path

from PIL import Image, ImageDraw


def image(rng: random.Random, digit: int) -> bytes:
    """Return 28 x 28 grey values: a bent stroke whose course depends on the class."""
    course = random.Random(digit)
    points = [(course.uniform(16, 68), course.uniform(16, 68)) for _ in range(5)]
    shake = [(x + rng.gauss(0, 4), y + rng.gauss(0, 4)) for x, y in points]
    large = Image.new("L", (84, 84))
    ImageDraw.Draw(large).line(shake, fill=255, width=rng.randint(6, 9), joint="curve")
    return large.resize((28, 28), Image.Resampling.BOX).tobytes()


def write(folder: Path, part: str, count: int, seed: int) -> None:
    """Write one pair of idx files."""
    rng = random.Random(seed)
    labels = [rng.randrange(10) for _ in range(count)]
    pixels = b"".join(image(rng, label) for label in labels)
    head = struct.pack(">iiii", 2051, count, 28, 28)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
    head = struct.pack(">ii", 2049, count)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(labels))


if __name__ == "__main__":
    raw = Path(sys.argv[1]) / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    write(raw, "train", 18000, 1)
    write(raw, "t10k", 3000, 2)
