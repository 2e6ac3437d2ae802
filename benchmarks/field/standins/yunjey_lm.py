"""Stand-in for the Penn Treebank text of pytorch-tutorial's language model: lines of words."""

import sys
from pathlib import Path

import numpy as np

WORDS, TOKENS = 9998, 7300  # five epochs of 12 steps of 20 rows of 30; the treebank has 929589
LETTERS = "etaoinshrdlucmfwypvbgk"


def main() -> None:
    """Write data/train.txt: about 21 words a line, drawn by rank as in the treebank."""
    folder = Path(sys.argv[1]) / "tutorials" / "02-intermediate" / "language_model" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(12)
    words = ["the", "<unk>", "N", "of", "to", "a"]
    seen = set(words)
    while len(words) < WORDS:
        word = "".join(rng.choice(list(LETTERS), size=rng.integers(3, 10)))
        if word not in seen:
            seen.add(word)
            words.append(word)
    weight = 1 / np.arange(1, WORDS + 1)
    weight /= weight.sum()
    lines, total = [], 0
    while total < TOKENS:
        length = int(np.clip(rng.normal(20.9, 9), 1, 60))
        picks = rng.choice(WORDS, size=length, p=weight)
        lines.append(" " + " ".join(words[pick] for pick in picks) + " \n")
        total += length + 1  # the end of the line is a word too
    (folder / "train.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
