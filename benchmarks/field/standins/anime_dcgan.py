"""Stand-in for the anime faces: drawn faces as small JPEG files."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

FACES = 20  # the author's are 63565, 25 to 220 pixels wide (most of them near 96)


def main() -> None:
    """Write data/animefacedataset/thumbnails/*.jpg: hair, face, eyes and mouth."""
    folder = Path(sys.argv[1]) / "data" / "animefacedataset" / "thumbnails"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    for number in range(FACES):
        size = int(rng.integers(72, 128))
        colour = [tuple(int(value) for value in rng.integers(0, 255, 3)) for _ in range(3)]
        image = Image.new("RGB", (size, size), colour[0])
        draw = ImageDraw.Draw(image)
        draw.ellipse((size * 0.1, size * 0.05, size * 0.9, size * 0.85), fill=colour[1])
        draw.ellipse((size * 0.22, size * 0.25, size * 0.78, size * 0.95), fill=(248, 220, 200))
        for at in (0.36, 0.64):
            where = size * (at + rng.normal(0, 0.01))
            draw.ellipse(
                (where - size * 0.09, size * 0.48, where + size * 0.09, size * 0.68),
                fill=colour[2],
            )
        draw.line((size * 0.45, size * 0.82, size * 0.55, size * 0.82), fill=(160, 60, 60), width=2)
        noise = rng.normal(0, 6, (size, size, 3))
        pixels = np.clip(np.asarray(image, dtype=float) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)


if __name__ == "__main__":
    main()
