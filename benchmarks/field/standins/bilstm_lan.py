"""Stand-in for BiLSTM-LAN: part-of-speech files like the Wall Street Journal's, word vectors."""

import sys
from pathlib import Path

import numpy as np

COUNTS = {"train": 400, "dev": 60, "test": 60}  # sentences; the journal's split has 38219
WORDS, TAGS, WIDTH = 3000, 45, 100
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def main() -> None:
    """Write sample/*.pos (mean 24 words a sentence, 4.7 letters a word) and sample/vectors.txt."""
    folder = Path(sys.argv[1]) / "sample"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(17)
    share = 1 / np.arange(1, len(LETTERS) + 1)
    share /= share.sum()
    words: list[str] = []
    seen = set()
    while len(words) < WORDS:
        length = int(np.clip(rng.poisson(2 + 4 * min(1, len(words) / 300)), 1, 16))
        word = "".join(rng.choice(list(LETTERS), size=length, p=share))
        if word not in seen:
            seen.add(word)
            words.append(word)
    tags = [f"T{k}" for k in range(TAGS)]
    usual = rng.choice(TAGS, size=WORDS, p=(w := 1 / np.arange(2, TAGS + 2)) / w.sum())
    weight = 1 / np.arange(1, WORDS + 1)
    weight /= weight.sum()
    for part, count in COUNTS.items():
        lines = []
        for _ in range(count):
            length = int(np.clip(rng.normal(24, 11), 2, 70))
            for pick in rng.choice(WORDS, size=length, p=weight):
                tag = usual[pick] if rng.random() < 0.92 else rng.integers(TAGS)
                lines.append(f"{words[pick]} {tags[tag]}\n")
            lines.append("\n")
        (folder / f"{part}.pos").write_text("".join(lines))
    known = rng.permutation(WORDS)[: int(0.9 * WORDS)]
    vectors = rng.normal(0, 0.4, size=(len(known), WIDTH))
    rows = [
        words[pick] + " " + " ".join(f"{value:.4f}" for value in vector) + "\n"
        for pick, vector in zip(known, vectors, strict=True)
    ]
    (folder / "vectors.txt").write_text("".join(rows))


if __name__ == "__main__":
    main()
