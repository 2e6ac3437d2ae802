"""Stand-in for the GAT on Cora: a part of the repository's own citation graph with made words."""

import sys
from collections import defaultdict, deque
from pathlib import Path

import numpy as np

NODES, WORDS = 700, 1433  # Cora has 2708 papers of 1433 words, 18 set on average
LABELS = (
    "Case_Based",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Reinforcement_Learning",
    "Rule_Learning",
    "Theory",
)


def neighbours(pairs: list[list[str]]) -> dict[str, list[str]]:
    """For each paper those that it cites or that cite it."""
    near = defaultdict(list)
    for one, two in pairs:
        near[one].append(two)
        near[two].append(one)
    return near


def cut(pairs: list[list[str]]) -> list[list[str]]:
    """The citations among the NODES papers nearest to the one with the most."""
    near = neighbours(pairs)
    start = max(sorted(near), key=lambda paper: len(near[paper]))
    where, queue = {start}, deque([start])
    while queue and len(where) < NODES:
        for paper in near[queue.popleft()]:
            if paper not in where and len(where) < NODES:
                where.add(paper)
                queue.append(paper)
    return [pair for pair in pairs if pair[0] in where and pair[1] in where]


def main() -> None:
    """Take a connected part of cora.cites and write cora.content for its papers."""
    folder = Path(sys.argv[1]) / "graph_learning" / "data"
    pairs = [line.split() for line in (folder / "cora.cites").read_text().splitlines()]
    if len({paper for pair in pairs for paper in pair}) > NODES:
        pairs = cut(pairs)
        (folder / "cora.cites").write_text("".join(f"{one}\t{two}\n" for one, two in pairs))
    near = neighbours(pairs)
    rng = np.random.default_rng(11)
    papers = sorted(near, key=int)
    label = {paper: int(rng.integers(len(LABELS))) for paper in papers}
    for _ in range(8):  # neighbours share their subject, as in Cora
        for paper in papers:
            other = near[paper][int(rng.integers(len(near[paper])))]
            if rng.random() < 0.5:
                label[paper] = label[other]
    likely = rng.dirichlet(np.full(WORDS, 0.08), size=len(LABELS))
    common = rng.dirichlet(np.full(WORDS, 0.3))
    lines = []
    for paper in papers:
        words = np.zeros(WORDS, dtype=int)
        chance = 0.6 * likely[label[paper]] + 0.4 * common
        words[rng.choice(WORDS, size=int(rng.integers(9, 28)), p=chance)] = 1
        lines.append("\t".join([paper, *map(str, words), LABELS[label[paper]]]) + "\n")
    (folder / "cora.content").write_text("".join(lines))


if __name__ == "__main__":
    main()
