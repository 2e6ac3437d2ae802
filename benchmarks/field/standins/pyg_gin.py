"""Stand-in data for pyg-team/pytorch_geometric examples/mutag_gin.py: PROTEINS in TU's layout."""

import sys
from pathlib import Path

import numpy as np
from torch_geometric.datasets import TUDataset

GRAPHS = 1113


def size(rng: np.random.Generator) -> int:
    """Return a count of nodes as in PROTEINS (4 to 620, mean 39, median 26)."""
    return int(np.clip(rng.lognormal(3.26, 0.85), 4, 620))


def edges(rng: np.random.Generator, nodes: int) -> set[tuple[int, int]]:
    """Return a chain with near neighbours in it, about 3.7 neighbours a node."""
    pairs = {(node, node + 1) for node in range(nodes - 1)}
    for _ in range(int(nodes * 0.87)):
        a = int(rng.integers(nodes))
        b = int(np.clip(a + rng.integers(2, 9), 0, nodes - 1))
        if a < b:
            pairs.add((a, b))
    return pairs


def main() -> None:
    """Write 1113 graphs of three kinds of nodes and two classes to data/TU/PROTEINS/raw."""
    raw = Path(sys.argv[1]) / "data" / "TU" / "PROTEINS" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    arcs: list[str] = []
    indicator: list[str] = []
    kinds: list[str] = []
    attributes: list[str] = []
    labels: list[str] = []
    first = 1
    for graph in range(1, GRAPHS + 1):
        nodes, label = size(rng), 1 if rng.random() < 0.6 else 2
        for a, b in sorted(edges(rng, nodes)):
            arcs += [f"{first + a}, {first + b}", f"{first + b}, {first + a}"]
        share = [0.5, 0.48, 0.02] if label == 1 else [0.38, 0.6, 0.02]
        kinds += [str(kind) for kind in rng.choice(3, size=nodes, p=share)]
        attributes += [f"{value:.1f}" for value in rng.integers(2, 40, size=nodes)]
        indicator += [str(graph)] * nodes
        labels.append(str(label))
        first += nodes
    parts = {"A": arcs, "graph_indicator": indicator, "graph_labels": labels}
    parts |= {"node_labels": kinds, "node_attributes": attributes}
    for name, lines in parts.items():
        (raw / f"PROTEINS_{name}.txt").write_text("\n".join(lines) + "\n")
    TUDataset(str(raw.parent.parent), name="PROTEINS")  # processed once, as by an earlier run


if __name__ == "__main__":
    main()
