"""Stand-in for sw_study's English text: sentences drawn by the repository's own word counts."""

import sys
from pathlib import Path

import numpy as np

SENTENCES = 20000  # the real text: about a million words


def main() -> None:
    """Write toy_data/en/standin: a sentence of six to 60 words a line, words in local topics."""
    checkout = Path(sys.argv[1])
    folder = checkout / "toy_data" / "en"
    rng = np.random.default_rng(9)
    pairs = [line.split("\t") for line in (folder / "en.sent.1m.dict").read_text().splitlines()]
    words = np.array([pair[0] for pair in pairs if len(pair) == 2 and len(pair[0].split()) == 1])
    single = [pair for pair in pairs if len(pair) == 2 and len(pair[0].split()) == 1]
    counts = np.array([int(count) for _, count in single])
    share = counts / counts.sum()
    rare = np.flatnonzero((counts < 2000) & (counts >= 5))
    topics = [rng.choice(rare, size=200, p=share[rare] / share[rare].sum()) for _ in range(150)]
    lengths = np.clip(rng.normal(25, 10, size=SENTENCES), 6, 60).astype(int)
    every = rng.choice(len(words), size=int(lengths.sum()), p=share)
    lines, at = [], 0
    for length in lengths:
        chosen, at = every[at : at + length].copy(), at + length
        topic = topics[int(rng.integers(len(topics)))]
        local = rng.random(length) < 0.2
        chosen[local] = rng.choice(topic, size=int(local.sum()))
        lines.append(" ".join(words[chosen]))
    (folder / "standin").write_text("\n".join(lines) + "\n")
    for left in folder.glob("standin.*"):
        left.unlink()
    (checkout / "code" / "out").mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
