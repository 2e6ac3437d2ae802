"""Writes data/train and data/test in DAVID's form: 64 and 16 PNG of 960 x 720 and label colours."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

ROAD, SKY, CAR, MARK = (128, 64, 128), (70, 130, 180), (0, 0, 142), (157, 234, 50)


def both(brush, pen, kind, shape, colour, name):
    """Draw a shape into the picture, in a colour near the given one, and into the label."""
    near = [int(part + rng.integers(-25, 26)) for part in colour]
    getattr(brush, kind)(shape, fill=tuple(min(255, max(0, part)) for part in near))
    getattr(pen, kind)(shape, fill=name)


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    for part, many in (("train", 64), ("test", 16)):
        images, labels = (checkout / "data" / part / kind for kind in ("Images", "Labels"))
        images.mkdir(parents=True, exist_ok=True)
        labels.mkdir(parents=True, exist_ok=True)
        for number in range(many):
            picture, label = Image.new("RGB", (960, 720)), Image.new("RGB", (960, 720))
            brush, pen = ImageDraw.Draw(picture), ImageDraw.Draw(label)
            edge = int(rng.integers(260, 400))
            both(brush, pen, "rectangle", (0, 0, 960, edge), (150, 180, 220), SKY)
            both(brush, pen, "rectangle", (0, edge, 960, 720), (90, 90, 95), ROAD)
            for _ in range(int(rng.integers(2, 7))):
                x, top = rng.uniform(50, 900), rng.uniform(edge, 600)
                lean, wide = rng.uniform(-60, 60), rng.uniform(8, 30)
                low = min(720, top + rng.uniform(60, 300))
                line = [(x, top), (x + wide, top), (x + wide + lean, low), (x + lean, low)]
                both(brush, pen, "polygon", line, (225, 225, 220), MARK)
            for _ in range(int(rng.integers(1, 5))):
                x, y, size = rng.uniform(0, 900), rng.uniform(edge - 40, 560), rng.uniform(40, 160)
                both(brush, pen, "rectangle", (x, y, x + size * 1.6, y + size), (120, 40, 50), CAR)
            picture = picture.filter(ImageFilter.GaussianBlur(1))
            noisy = np.asarray(picture) + rng.normal(0, 6, (720, 960, 1))
            picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
            picture.save(images / f"{part}_{number:04}.png")
            label.save(labels / f"{part}_{number:04}.png")
