"""Writes data/imgs, data/masks: 72 JPEG of 256 x 192, GIF masks of an ellipse; wandb offline."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    images, masks = checkout / "data" / "imgs", checkout / "data" / "masks"
    images.mkdir(parents=True, exist_ok=True)
    masks.mkdir(parents=True, exist_ok=True)
    for number in range(72):
        x, y = rng.uniform(90, 166), rng.uniform(70, 122)
        wide, high = rng.uniform(40, 80), rng.uniform(25, 50)
        box = (x - wide, y - high, x + wide, y + high)
        ground, body = (tuple(rng.integers(40, 220, 3).tolist()) for _ in range(2))
        picture, mask = Image.new("RGB", (256, 192), ground), Image.new("1", (256, 192))
        ImageDraw.Draw(picture).ellipse(box, fill=body)
        ImageDraw.Draw(mask).ellipse(box, fill=1)
        noisy = np.asarray(picture) + rng.normal(0, 12, (192, 256, 3))
        picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
        picture.save(images / f"car{number:03}.jpg", quality=90)
        mask.save(masks / f"car{number:03}_mask.gif")
    (checkout / "wandb").mkdir(exist_ok=True)
    (checkout / "wandb" / "settings").write_text("[default]\nmode = offline\n")
