"""Writes dataset/{train,test}/{3,no3}/*.png (800 drawn digits of 28 x 28) and checkpoints/."""

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont


def digit(rng: random.Random, sign: str) -> Image.Image:
    """Return a white digit on black, moved, turned and of uneven strength."""
    large = Image.new("L", (84, 84))
    font = ImageFont.load_default(rng.randint(52, 66))
    place = (42 + rng.randint(-5, 5), 42 + rng.randint(-5, 5))
    ImageDraw.Draw(large).text(place, sign, fill=255, font=font, anchor="mm", stroke_width=1)
    turned = large.rotate(rng.uniform(-18, 18), Image.Resampling.BILINEAR)
    return turned.resize((28, 28), Image.Resampling.BOX)


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    (checkout / "checkpoints").mkdir(exist_ok=True)
    rng = random.Random(5)
    for part, count in (("train", 300), ("test", 100)):
        for kind, signs in (("3", "3"), ("no3", "012456789")):
            folder = checkout / "dataset" / part / kind
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                digit(rng, rng.choice(signs)).save(folder / f"{number}.png")
