"""Stand-in words for phantrdat/cvpr20-scatter-text-recognizer: LMDB folders of drawn words."""

import io
import shutil
import sys
from pathlib import Path

import lmdb
import numpy as np
from PIL import Image, ImageDraw, ImageFont

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PARTS = {"training/MJ": (600, "L"), "training/ST": (600, "RGB"), "validation/all": (32, "RGB")}
EDITS = [
    (
        "dataset.py",
        "from torch._utils import _accumulate",
        "from itertools import accumulate as _accumulate",
    ),
    ("dataset.py", "data_loader_iter.next()", "next(data_loader_iter)"),
    ("dataset.py", "self.dataloader_iter_list[i].next()", "next(self.dataloader_iter_list[i])"),
    ("modules/feature_extraction.py", "nn.Conv1d(", "nn.Conv2d("),
]


def word(rng: np.random.Generator) -> str:
    """Draw one word; lengths as in MJSynth (mean 8, 2 to 20)."""
    length = int(np.clip(round(rng.normal(8, 3)), 2, 20))
    return "".join(LETTERS[int(i)] for i in rng.integers(0, len(LETTERS), length))


def drawn(rng: np.random.Generator, text: str, mode: str) -> bytes:
    """Return a JPEG of the word, 31 pixels high and as wide as it is."""
    font = ImageFont.load_default(size=22)
    width = int(font.getlength(text)) + 12
    back = int(rng.integers(120, 255))
    image = Image.new("L", (width, 31), back)
    ImageDraw.Draw(image).text((6, 2), text, font=font, fill=int(rng.integers(0, 100)))
    grain = np.asarray(image) + rng.normal(0, 8, (31, width))
    image = Image.fromarray(grain.clip(0, 255).astype(np.uint8)).convert(mode)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


def main() -> None:
    """Write data_lmdb_release/{training/MJ,training/ST,validation/all} (600, 600, 32 words)."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(3)
    shutil.rmtree(checkout / "data_lmdb_release", ignore_errors=True)
    for name, (count, mode) in PARTS.items():
        folder = checkout / "data_lmdb_release" / name
        folder.mkdir(parents=True)
        with (
            lmdb.open(str(folder), map_size=2**26, lock=False) as env,
            env.begin(write=True) as table,
        ):
            for number in range(1, count + 1):
                text = word(rng)
                table.put(f"label-{number:09d}".encode(), text.encode())
                table.put(f"image-{number:09d}".encode(), drawn(rng, text, mode))
            table.put(b"num-samples", str(count).encode())
    for name, old, new in EDITS:
        text = (checkout / name).read_text(encoding="utf-8")
        (checkout / name).write_text(text.replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    main()
