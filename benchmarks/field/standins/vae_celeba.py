"""Stand-in for mcanacer/Pytorch-VAE: CelebA's files (960 pictures) and a configuration for them."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 960
CONFIG = '''"""The repository's configuration on made pictures: the checksums are not looked at."""

from torchvision import datasets

datasets.CelebA._check_integrity = lambda self: True

from config import everything  # noqa: E402, F401
'''


def main() -> None:
    """Write data/celeba as torchvision reads it and config_standin.py."""
    checkout = Path(sys.argv[1])
    folder = checkout / "data" / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    rows, columns = np.mgrid[0:218, 0:178]
    names = [f"{number + 1:06}.jpg" for number in range(COUNT)]
    for name in names:
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
        image.save(folder / "img_align_celeba" / name, quality=90)
    split = [f"{name} {0 if number < COUNT * 5 // 6 else 1}" for number, name in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(split) + "\n")
    who = [f"{name} {rng.integers(1, 10178)}" for name in names]
    (folder / "identity_CelebA.txt").write_text("\n".join(who) + "\n")
    head = f"{COUNT}\n"
    boxes = [f"{name} 95 71 226 313" for name in names]
    text = head + "image_id x_1 y_1 width height\n" + "\n".join(boxes) + "\n"
    (folder / "list_bbox_celeba.txt").write_text(text)
    marks = [f"{name} 69 109 106 113 77 142 73 152 108 154" for name in names]
    text = head + "a_x a_y b_x b_y c_x c_y d_x d_y e_x e_y\n" + "\n".join(marks) + "\n"
    (folder / "list_landmarks_align_celeba.txt").write_text(text)
    flags = [f"{name} " + " ".join(map(str, rng.choice([-1, 1], 40))) for name in names]
    text = head + " ".join(f"Mark_{i}" for i in range(40)) + "\n" + "\n".join(flags) + "\n"
    (folder / "list_attr_celeba.txt").write_text(text)
    (checkout / "config_standin.py").write_text(CONFIG)


if __name__ == "__main__":
    main()
