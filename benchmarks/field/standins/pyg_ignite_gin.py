"""Stand-in for IMDB-BINARY (TUDataset): ego networks of actors as raw text files."""

import sys
from pathlib import Path

import numpy as np

GRAPHS, MOST = 1000, 136  # as the real one: 1000 graphs of 12 to 136 nodes, 19.8 in the mean


def main() -> None:
    """Write the four raw files that TUDataset reads."""
    folder = Path(sys.argv[1]) / "examples" / "pytorch_ignite" / "data"
    folder = folder / "TUDataset" / "IMDB-BINARY" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(9)
    edges, indicator, labels, first = [], [], [], 1
    for graph in range(1, GRAPHS + 1):
        label = graph % 2
        nodes = int(np.clip(12 + rng.exponential(8), 12, MOST))
        joined = {(0, other) for other in range(1, nodes)}  # the ego knows everybody
        at = 1
        while at < nodes:  # each film is a clique; the two kinds differ in the size of the casts
            cast = nodes - at
            if cast > 2:
                cast = int(np.clip(rng.normal(9 if label else 6, 3), 2, cast))
            members = list(range(at, at + cast))
            members += [int(m) for m in rng.integers(1, nodes, size=2)]
            joined |= {(a, b) for a in members for b in members if a < b}
            at += cast
        for a, b in sorted(joined):
            edges += [f"{first + a}, {first + b}", f"{first + b}, {first + a}"]
        indicator += [str(graph)] * nodes
        labels.append(str(label))
        first += nodes
    (folder / "IMDB-BINARY_A.txt").write_text("\n".join(edges) + "\n")
    (folder / "IMDB-BINARY_graph_indicator.txt").write_text("\n".join(indicator) + "\n")
    (folder / "IMDB-BINARY_graph_labels.txt").write_text("\n".join(labels) + "\n")


if __name__ == "__main__":
    main()
