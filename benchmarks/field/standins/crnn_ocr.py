"""Writes 512 + 64 drawn words as JPEG in Synth90k's layout, and small sizes in src/config.py."""

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZES = {
    "'epochs': 10000": "'epochs': 1",
    "'train_batch_size': 32": "'train_batch_size': 8",
    "'eval_batch_size': 512": "'eval_batch_size': 8",
    "'valid_interval': 500": "'valid_interval': 8",
    "'save_interval': 2000": "'save_interval': 64",
    "'cpu_workers': 4": "'cpu_workers': 0",
    "'valid_max_iter': 100": "'valid_max_iter': 1",
}


def draw(rng: random.Random, word: str) -> Image.Image:
    """Return a word on a plain ground, 31 high, a little turned, in random colours."""
    font = ImageFont.load_default(size=rng.randint(18, 24))
    width = round(font.getlength(word)) + rng.randint(8, 20)
    ground = tuple(rng.randint(120, 255) for _ in range(3))
    picture = Image.new("RGB", (width, 31), ground)
    ink = tuple(rng.randint(0, 110) for _ in range(3))
    ImageDraw.Draw(picture).text((rng.randint(2, 8), rng.randint(0, 4)), word, ink, font)
    return picture.rotate(rng.uniform(-4, 4), Image.Resampling.BILINEAR, fillcolor=ground)


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    root = checkout / "data" / "mnt" / "ramdisk" / "max" / "90kDICT32px"
    vowels, others = "aeiou", "bcdfghklmnprstvwz"
    syllables = [first + vowel for first in others for vowel in vowels]
    words = sorted({"".join(rng.choices(syllables, k=rng.randint(2, 5))) for _ in range(900)})
    for part, count in (("train", 512), ("val", 64)):
        lines = []
        for number in range(count):
            index = rng.randrange(len(words))
            path = f"./{part}/{number % 7}/{number}_{words[index]}_{index}.jpg"
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            draw(rng, words[index]).save(root / path, quality=90)
            lines.append(f"{path} {index}\n")
        (root / f"annotation_{part}.txt").write_text("".join(lines))
    (root / "lexicon.txt").write_text("".join(f"{word}\n" for word in words))
    config = checkout / "src" / "config.py"
    text = config.read_text()
    head, mark, tail = text.partition("evaluate_config = ")
    for old, new in SIZES.items():
        head = head.replace(old + ",", new + ",")
    config.write_text(head + mark + tail)
