"""Stand-in for tkipf/pygcn: papers' words in Cora's layout for the citations in the repository."""

import sys
from pathlib import Path

import numpy as np

WORDS, CLASSES = 1433, 7
NAMES = ["Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods"]
NAMES += ["Reinforcement_Learning", "Rule_Learning", "Theory"]


def main() -> None:
    """Write data/cora/cora.content (2708 papers, 18 of 1433 words each) and link the package."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(3)
    folder = checkout / "data" / "cora"
    papers = sorted({int(i) for i in (folder / "cora.cites").read_text().split()})
    lines = []
    for paper in rng.permutation(papers):
        kind = int(rng.choice(CLASSES, p=[0.11, 0.15, 0.3, 0.16, 0.08, 0.07, 0.13]))
        chance = 1 / np.arange(1, WORDS + 1) ** 0.6
        chance[kind * 60 : kind * 60 + 60] *= 3
        words = np.zeros(WORDS, dtype=int)
        count = int(np.clip(rng.normal(18, 5), 1, 30))
        words[rng.choice(WORDS, count, replace=False, p=chance / chance.sum())] = 1
        lines.append(f"{paper}\t" + "\t".join(map(str, words)) + f"\t{NAMES[kind]}\n")
    (folder / "cora.content").write_text("".join(lines))
    link = checkout / "pygcn" / "pygcn"  # the README installs the package
    if not link.exists():
        link.symlink_to(".")


if __name__ == "__main__":
    main()
