"""Writes data/talk.txt: 4000 made-up question and answer pairs, and removes save/ of older runs."""

import random
import shutil
import sys
from pathlib import Path

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]


def sentence(rng: random.Random, words: list[str], weights: list[float]) -> str:
    """Return a spoken line: five words on average, seldom more than ten."""
    length = min(14, max(1, round(rng.gammavariate(2.5, 2.1))))
    return " ".join(rng.choices(words, weights, k=length))


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    shutil.rmtree(checkout / "save", ignore_errors=True)
    words = sorted({"".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(3000)})
    rng.shuffle(words)
    weights = [1 / (rank + 3) for rank in range(len(words))]
    lines = [sentence(rng, words, weights) + "\n" for _ in range(8000)]
    (checkout / "data").mkdir(exist_ok=True)
    (checkout / "data" / "talk.txt").write_text("".join(lines))
