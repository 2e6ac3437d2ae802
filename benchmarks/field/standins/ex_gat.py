"""Stand-in for pytorch/examples gat: Cora's two files (2000 papers, 1433 words, 4010 citations)."""

import sys
from pathlib import Path

import numpy as np

PAPERS, WORDS, CITES = 2000, 1433, 4010  # the real one: 2708 papers, 5429 citations
NAMES = ["Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods"]
NAMES += ["Reinforcement_Learning", "Rule_Learning", "Theory"]


def main() -> None:
    """Write gat/cora/cora.content and gat/cora/cora.cites."""
    folder = Path(sys.argv[1], "gat", "cora")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(8)
    kinds = rng.choice(7, PAPERS, p=[0.11, 0.15, 0.3, 0.16, 0.08, 0.07, 0.13])
    numbers = rng.permutation(1_000_000)[:PAPERS]
    lines = []
    for paper, kind in zip(numbers, kinds, strict=True):
        chance = 1 / np.arange(1, WORDS + 1) ** 0.6
        chance[kind * 60 : kind * 60 + 60] *= 3
        words = np.zeros(WORDS, dtype=int)
        count = int(np.clip(rng.normal(18, 5), 1, 30))
        words[rng.choice(WORDS, count, replace=False, p=chance / chance.sum())] = 1
        lines.append(f"{paper}\t" + "\t".join(map(str, words)) + f"\t{NAMES[kind]}\n")
    (folder / "cora.content").write_text("".join(lines))
    fame, pairs = rng.pareto(1.5, PAPERS) + 0.3, set()
    while len(pairs) < CITES:
        paper = int(rng.integers(PAPERS))
        chance = fame * np.where(kinds == kinds[paper], 25, 1)
        other = int(rng.choice(PAPERS, p=chance / chance.sum()))
        if other != paper:
            pairs.add((other, paper))
    rows = [f"{numbers[a]}\t{numbers[b]}\n" for a, b in sorted(pairs)]
    (folder / "cora.cites").write_text("".join(rows))


if __name__ == "__main__":
    main()
