"""Stand-in for oke-aditya/image_similarity: 512 x 512 animal-like pictures and smaller settings."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 32
CHANGED = {"EPOCHS": 6, "TRAIN_BATCH_SIZE": 2, "TEST_BATCH_SIZE": 2, "FULL_BATCH_SIZE": 2}


def main() -> None:
    """Write input/animals-data/dataset/*.jpg, data/models and the sizes in config.py."""
    checkout = Path(sys.argv[1])
    folder = checkout / "input" / "animals-data" / "dataset"
    folder.mkdir(parents=True, exist_ok=True)
    (checkout / "data" / "models").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    rows, columns = np.mgrid[0:512, 0:512]
    for number in range(COUNT):
        soft = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        picture = np.asarray(soft.resize((512, 512), Image.Resampling.BICUBIC)).astype(float)
        for _ in range(rng.integers(2, 6)):
            y, x = rng.uniform(120, 400, 2)
            tall, wide = rng.uniform(30, 140, 2)
            picture[((rows - y) / tall) ** 2 + ((columns - x) / wide) ** 2 < 1] = rng.integers(
                0, 256, 3
            )
        picture += rng.normal(0, 8, picture.shape)
        image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
        image.save(folder / f"{number}.jpg", quality=92)
    config = checkout / "image_similarity" / "config.py"
    lines = config.read_text().splitlines()
    for row, line in enumerate(lines):
        name = line.split(" = ")[0]
        if name in CHANGED:
            lines[row] = f"{name} = {CHANGED[name]}"
    config.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
