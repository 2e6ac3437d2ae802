"""Writes data/train and data/validation: JPEG of about 500 x 375 in 8 classes, 256 and 64."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    for part, many in (("train", 32), ("validation", 8)):
        for name in range(8):
            folder = checkout / "data" / part / f"n{name:08}"
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(many):
                wide, high = (int(size * rng.uniform(0.8, 1.2)) for size in (500, 375))
                ground = tuple(rng.integers(30, 220, 3).tolist())
                picture = Image.new("RGB", (wide, high), ground)
                brush = ImageDraw.Draw(picture)
                for _ in range(3 + name):
                    x, y, size = rng.uniform(0, wide), rng.uniform(0, high), rng.uniform(30, 120)
                    colour = tuple(rng.integers(0, 255, 3).tolist())
                    shape = brush.ellipse if name % 2 else brush.rectangle
                    shape((x - size, y - size, x + size, y + size), fill=colour)
                picture = picture.filter(ImageFilter.GaussianBlur(1))
                noisy = np.asarray(picture) + rng.normal(0, 10, (high, wide, 1))
                picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
                picture.save(folder / f"{part}_{number:04}.jpg", quality=90)
