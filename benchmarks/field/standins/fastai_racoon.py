"""Stand-in pictures for rancheta/is-it-a-racoon (fastai): two folders of JPEG files."""

import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = {"boat": (70, 110, 160), "racoon": (110, 100, 80)}
SIZES = [(1280, 960), (1000, 720), (1600, 1200), (720, 560), (1290, 900)]


def picture(
    rng: np.random.Generator, size: tuple[int, int], colour: tuple[int, int, int]
) -> Image.Image:
    """Draw one picture with the grain and the detail that a photograph has."""
    width, height = size
    small = rng.integers(0, 90, (height // 16, width // 16, 3)) + np.array(colour)
    image = Image.fromarray(small.clip(0, 255).astype(np.uint8)).resize(
        size, Image.Resampling.BICUBIC
    )
    draw = ImageDraw.Draw(image)
    for _ in range(40):
        x, y = int(rng.integers(width)), int(rng.integers(height))
        w, h = int(rng.integers(20, width // 3)), int(rng.integers(20, height // 3))
        fill = tuple(int(c) for c in rng.integers(0, 255, 3))
        if colour[2] > colour[0]:
            draw.polygon([(x, y), (x + w, y), (x + w // 2, y + h)], fill=fill)
        else:
            draw.ellipse([x, y, x + w, y + h], fill=fill)
    image = image.filter(ImageFilter.GaussianBlur(1))
    grain = rng.normal(0, 6, (height, width, 1))
    return Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8))


def main() -> None:
    """Write data/{boat,racoon} (75 JPEG each, the author's sizes); no weights, Resize(64)."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(11)
    shutil.rmtree(checkout / "data", ignore_errors=True)
    for name, colour in CLASSES.items():
        folder = checkout / "data" / name
        folder.mkdir(parents=True)
        for number in range(75):
            size = SIZES[int(rng.integers(len(SIZES)))]
            picture(rng, size, colour).save(folder / f"{number:08d}.jpg", quality=88)
    script = checkout / "train.py"
    text = script.read_text(encoding="utf-8")
    text = text.replace("metrics=error_rate)", "metrics=error_rate, pretrained=False)")
    text = text.replace("cnn_learner(", "vision_learner(").replace("Resize(224)", "Resize(64)")
    script.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
