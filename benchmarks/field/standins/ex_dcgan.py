"""Stand-in pictures for pytorch/examples dcgan (--dataset folder): faces-like JPEG files."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 800


def main() -> None:
    """Write 800 pictures of 178 x 218 (as CelebA's) in one class folder."""
    folder = Path(sys.argv[1], "dcgan", "data", "celeba")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    rows, columns = np.mgrid[0:218, 0:178]
    for number in range(COUNT):
        y, x = 109 + rng.normal(0, 6, 2)
        x -= 20
        back, face, hair = rng.integers(0, 256, (3, 3))
        picture = np.ones((218, 178, 3)) * back + rng.normal(0, 12, (218, 178, 1))
        round_ = ((rows - y) / 75) ** 2 + ((columns - x) / 55) ** 2
        picture[round_ < 1.4] = hair
        picture[round_ < 1] = face
        for side in (-22, 22):
            eye = (rows - y + 15) ** 2 + (columns - x - side) ** 2 < 36
            picture[eye] = rng.integers(0, 90, 3)
        picture += rng.normal(0, 6, picture.shape)
        image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
        image.save(folder / f"{number:06}.jpg", quality=90)


if __name__ == "__main__":
    main()
