"""Helper of the stand-ins with MNIST: writes the four idx files, images of bent pen strokes."""

import random
import struct
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


def write(raw: Path, train: int, test: int) -> None:
    """Write the pairs of idx files with so many images into a folder, as torchvision keeps them."""
    raw.mkdir(parents=True, exist_ok=True)
    for part, count, seed in (("train", train, 1), ("t10k", test, 2)):
        rng = random.Random(seed)
        labels = [rng.randrange(10) for _ in range(count)]
        pixels = b"".join(image(rng, label) for label in labels)
        head = struct.pack(">iiii", 2051, count, 28, 28)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
        head = struct.pack(">ii", 2049, count)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(labels))
