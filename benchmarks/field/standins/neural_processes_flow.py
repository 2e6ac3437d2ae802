"""Writes neural_diffusion_process/standin/dataset: 100 + 40 PNG strokes of 28 x 28, ten classes."""

import random
import sys
from pathlib import Path

import mnist
from PIL import Image

if __name__ == "__main__":
    root, rng = Path(sys.argv[1]) / "neural_diffusion_process" / "standin", random.Random(0)
    for part, count in (("mnist_train", 100), ("mnist_test", 40)):
        for number in range(count):
            folder = root / "dataset" / part / str(number % 10)
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.frombytes("L", (28, 28), mnist.image(rng, number % 10))
            picture.save(folder / f"{number}.png")
