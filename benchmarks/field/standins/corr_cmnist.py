"""Stand-in for the coloured MNIST of gen_color_mnist.py: drawn digits in two colours each."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

TRAIN, TEST, CLASSES = 6000, 1000, 10  # the author's are 60000 and 10000


def digits(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """White digits on black of 28 x 28, turned, moved and of several sizes."""
    font = {size: ImageFont.load_default(size) for size in range(16, 25)}
    masks = np.zeros((len(labels), 28, 28), dtype=np.float32)
    for at, label in enumerate(labels):
        image = Image.new("L", (28, 28))
        spot = (14 + float(rng.normal(0, 1.2)), 14 + float(rng.normal(0, 1.2)))
        draw = ImageDraw.Draw(image)
        draw.text(spot, str(label), fill=255, font=font[int(rng.integers(16, 25))], anchor="mm")
        image = image.rotate(float(rng.normal(0, 10)), resample=Image.Resampling.BILINEAR)
        masks[at] = np.asarray(image) > 110
    return masks


def main() -> None:
    """Write datasets/cmnist/fgbg_cmnist_cpr0.5-0.5/{train,test}_{x,y}.npy."""
    folder = Path(sys.argv[1]) / "datasets" / "cmnist" / "fgbg_cmnist_cpr0.5-0.5"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    for name, count in (("train", TRAIN), ("test", TEST)):
        labels = rng.integers(CLASSES, size=count)
        masks = digits(rng, labels)[:, None]
        tied = name == "train"  # in the test file the colours do not depend on the digit
        picture = np.zeros((count, 3, 28, 28))
        for mask in (masks, 1 - masks):
            codes = rng.random((2 if tied else 1, CLASSES, 3))
            codes /= codes.max(axis=2, keepdims=True)
            chosen = rng.integers(len(codes), size=count)
            which = labels if tied else rng.integers(CLASSES, size=count)
            picture += mask * codes[chosen, which][:, :, None, None]
        picture += rng.normal(0, 10 / 255, picture.shape)
        np.save(folder / f"{name}_x.npy", np.clip(picture, 0, 1))  # float64, as the author's
        np.save(folder / f"{name}_y.npy", labels.astype(float))


if __name__ == "__main__":
    main()
