"""Stand-in data for dherath/GCN_example: the BA-2Motifs pickle that the script reads."""

import pickle
import sys
from pathlib import Path

import numpy as np

GRAPHS, BASE, MOTIF = 1000, 20, 5
HOUSE = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]
CYCLE = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]


def graph(rng: np.random.Generator, house: bool) -> np.ndarray:
    """Write one adjacency matrix: a Barabasi-Albert tree of 20 nodes and a motif of five."""
    adjacency = np.zeros((BASE + MOTIF, BASE + MOTIF), dtype=np.float64)
    edges = [(0, 1)]
    ends = [0, 1]
    for node in range(2, BASE):
        other = int(ends[rng.integers(len(ends))])
        edges.append((node, other))
        ends += [node, other]
    edges += [(BASE + u, BASE + v) for u, v in (HOUSE if house else CYCLE)]
    edges.append((int(rng.integers(BASE)), BASE + int(rng.integers(MOTIF))))
    for u, v in edges:
        adjacency[u, v] = adjacency[v, u] = 1.0
    return adjacency


def main() -> None:
    """Write datasets/BA_2Motifs.pkl (1000 graphs); 400 epochs instead of 20."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(7)
    labels = rng.permutation(GRAPHS) % 2
    adjacency = np.stack([graph(rng, bool(label)) for label in labels])
    features = np.full((GRAPHS, BASE + MOTIF, 10), 0.1)
    one_hot = np.eye(2, dtype=np.int64)[labels]
    (checkout / "datasets").mkdir(exist_ok=True)
    with open(checkout / "datasets" / "BA_2Motifs.pkl", "wb") as out:
        pickle.dump((adjacency, features, one_hot), out)
    script = checkout / "train_model.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("'num_epochs': 20,", "'num_epochs': 400,"), encoding="utf-8")


if __name__ == "__main__":
    main()
