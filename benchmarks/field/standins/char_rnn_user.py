"""Writes standin.txt: 3000 lines (90 KB) of verse-like random words."""

import random
import sys
from pathlib import Path

CONSONANTS = "bcdfghklmnprstvwz"
VOWELS = "aeiouy"


def word(rng: random.Random) -> str:
    """Return a made word of one to three syllables."""
    syllables = [rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(1, 3))]
    return "".join(syllables) + rng.choice(["", "n", "s", "r"])


def verse(rng: random.Random, words: list[str], weights: list[float]) -> str:
    """Return one line of about thirty letters."""
    line = " ".join(rng.choices(words, weights, k=rng.choice([4, 4, 5, 5, 5])))
    return line.capitalize() + rng.choice(["", ",", ",", ".", "!"])


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    rng = random.Random(7)
    words = sorted({word(rng) for _ in range(600)})
    rng.shuffle(words)
    weights = [1 / (rank + 2) for rank in range(len(words))]
    lines = [verse(rng, words, weights) for _ in range(3000)]
    (checkout / "standin.txt").write_text("\n".join(lines) + "\n")
    script = checkout / "charnn.py"
    text = script.read_text()
    script.write_text(text.replace("        verbose=True,\n", ""))  # no such argument any more
