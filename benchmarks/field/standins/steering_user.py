"""Writes 96 road frames of 455 x 256 (JPEG) to data/ and data.txt with the steering angles."""

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

HOME = "/home/rakshithram/Steering_Angle_Prediction/"


def frame(rng: random.Random, angle: float) -> Image.Image:
    """Return a road with lane marks that bends with the angle, under sky, with noise."""
    picture = Image.new("RGB", (455, 256), (70, 95, 60))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, 0, 455, 110), fill=(140, 170, 205 + rng.randint(-20, 20)))
    for _ in range(12):
        x, y = rng.randint(0, 455), rng.randint(80, 115)
        pen.ellipse((x - 25, y - 15, x + 25, y + 12), fill=(40, rng.randint(60, 110), 40))
    far = 227 + angle * 3
    pen.polygon([(far - 12, 110), (far + 12, 110), (430, 256), (25, 256)], fill=(90, 90, 95))
    for share in (0.05, 0.5, 0.95):
        start = (far - 12 + 24 * share, 110)
        pen.line([start, (25 + 405 * share, 256)], fill=(225, 225, 200), width=4)
    grain = Image.frombytes("L", (455, 256), rng.randbytes(455 * 256)).convert("RGB")
    picture = Image.blend(picture, grain, 0.08)
    return picture.filter(ImageFilter.GaussianBlur(0.6))


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    (checkout / "data").mkdir(exist_ok=True)
    rng = random.Random(17)
    angle, rows = 0.0, []
    for number in range(96):
        angle = max(-60.0, min(60.0, angle * 0.95 + rng.gauss(0, 6)))
        frame(rng, angle).save(checkout / "data" / f"{number}.jpg", quality=90)
        rows.append(f"{number}.jpg {angle:.6f},2018-07-01 17:09:{number // 20:02d}:{number * 50}")
    (checkout / "data.txt").write_text("\n".join(rows) + "\n")
    script = checkout / "train.py"
    text = script.read_text().replace("from pytorch_model import", "from model import")
    script.write_text(text.replace(HOME, "./"))
