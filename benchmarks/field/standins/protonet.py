"""Writes data/tmnist/glyphs: a table of 100 classes of 40 glyphs and the three label lists."""

import random
import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    folder, rng = Path(sys.argv[1]) / "data" / "tmnist" / "glyphs", random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(0x3B1 + k) for k in range(17)] + [chr(0x430 + k) for k in range(32)]
    letters += [chr(0x561 + k) for k in range(38)] + [chr(0x5D0 + k) for k in range(13)]
    rows = [",".join(["names", "labels", *map(str, range(1, 785))])]
    for font in range(40):
        for at, letter in enumerate(letters):
            pixels = ",".join(map(str, mnist.image(rng, at)))
            rows.append(f"Font{font}-Regular,{letter},{pixels}")
    (folder / "Glyphs_TMNIST_updated.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    rng.shuffle(letters)
    for part, some in (("train", letters[:64]), ("val", letters[64:80]), ("test", letters[80:])):
        (folder / f"{part}_labels.txt").write_text("\n".join(some) + "\n", encoding="utf-8")
