"""Stand-in for ESPCN-pytorch: drawn pictures in the sizes of 91-image and Set5, as HDF5."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN, HELD = 91, 5  # as in the 91-image set and Set5


def picture(rng: np.random.Generator, height: int, width: int) -> Image.Image:
    """Draw smooth colours, the edges of a few shapes and a fine grain."""
    image = np.zeros((height, width, 3))
    for cells in (4, 16, 64):
        small = rng.integers(0, 256, size=(cells, cells, 3), dtype=np.uint8)
        layer = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        image += np.asarray(layer, dtype=np.float64) * 2 / (3 * np.log2(cells))
    rows, columns = np.mgrid[:height, :width]
    for _ in range(12):
        y, x, size = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(8, 60)
        image[(rows - y) ** 2 + (columns - x) ** 2 < size**2] += rng.uniform(-70, 70, size=3)
    image += rng.normal(0, 3, size=image.shape)
    return Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))


def main() -> None:
    """Draw the pictures and let the repository's prepare.py cut them."""
    rng = np.random.default_rng(11)
    root = Path(sys.argv[1]).resolve()
    for name, count in (("train", TRAIN), ("eval", HELD)):
        folder = root / "standin" / name
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            height, width = (int(side) for side in rng.integers(160, 290, size=2))
            picture(rng, height, width).save(folder / f"t{index:03}.png")
        command = [sys.executable, "prepare.py", "--images-dir", f"standin/{name}"]
        command += ["--output-path", f"standin/{name}_x3.h5", "--scale", "3"]
        command += ["--eval"] if name == "eval" else []
        subprocess.run(command, cwd=root, check=True)


if __name__ == "__main__":
    main()
