"""Stand-in for VesselSeg-Pytorch: drawn fundus pictures in the layout and size of STARE."""

import re
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

PICTURES, TEST, HEIGHT, WIDTH = 20, 5, 605, 700
PATCHES = 2800  # N_patches in config.py, where the author has 150000


def branch(draw, rng, x, y, angle, width, steps):
    """Draw a vessel that wanders, thins and forks."""
    for _ in range(steps):
        angle += rng.normal(0, 0.18)
        to_x, to_y = x + 9 * np.cos(angle), y + 9 * np.sin(angle)
        draw.line([(x, y), (to_x, to_y)], fill=255, width=max(1, round(width)))
        x, y, width = to_x, to_y, width * 0.985
        if width > 1.5 and rng.random() < 0.07:
            turn = rng.choice([-1, 1]) * rng.uniform(0.4, 0.9)
            branch(draw, rng, x, y, angle + turn, width * 0.7, steps // 2)


def main() -> None:
    """Write images, labels and masks, the two lists of paths, and the number of patches."""
    root = Path(sys.argv[1])
    rng = np.random.default_rng(5)
    folders = [root / "data" / "STARE" / part for part in ("images", "1st_labels_ah", "mask")]
    lists = root / "prepare_dataset" / "data_path_list" / "STARE"
    for folder in [*folders, lists]:
        folder.mkdir(parents=True, exist_ok=True)
    lines = []
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    inside = ((rows - HEIGHT / 2) ** 2 + (columns - WIDTH / 2) ** 2) < (HEIGHT * 0.48) ** 2
    for index in range(PICTURES):
        label = Image.new("L", (WIDTH, HEIGHT))
        draw = ImageDraw.Draw(label)
        x, y = rng.uniform(150, 250), rng.uniform(260, 340)
        for angle in rng.uniform(-1.4, 1.4, size=9):
            branch(draw, rng, x, y, angle, rng.uniform(4, 8), 60)
        vessel = (np.asarray(label) > 127) & inside
        soft = (
            np.asarray(
                Image.fromarray(vessel.astype(np.uint8) * 255).filter(ImageFilter.GaussianBlur(1.2))
            )
            / 255
        )
        light = 1 - 0.4 * np.hypot(rows - y, columns - x) / WIDTH
        colour = np.array([190, 95, 45]) * rng.uniform(0.85, 1.15)
        image = light[:, :, None] * colour * (1 - 0.35 * soft[:, :, None])
        image = (image + rng.normal(0, 5, size=image.shape)) * inside[:, :, None]
        pictures = [np.clip(image, 0, 255), vessel * 255, inside * 255]
        names = []
        for folder, array in zip(folders, pictures, strict=True):
            path = folder / f"im{index:04}.png"
            Image.fromarray(array.astype(np.uint8)).save(path)
            names.append(path.relative_to(root).as_posix())
        lines.append(" ".join(names) + "\n")
    (lists / "test.txt").write_text("".join(lines[:TEST]), encoding="utf-8")
    (lists / "train.txt").write_text("".join(lines[TEST:]), encoding="utf-8")
    config = root / "config.py"
    old = config.read_bytes()  # its lines end in CR LF
    config.write_bytes(re.sub(rb"('--N_patches', default=)\d+", rb"\g<1>%d" % PATCHES, old))


if __name__ == "__main__":
    main()
