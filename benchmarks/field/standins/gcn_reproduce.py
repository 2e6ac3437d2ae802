"""Writes data/standin: a citation graph of Cora's size in the Planetoid layout."""

import pickle
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

NODES, WORDS, CLASSES, EDGES, TEST, TRAIN = 2708, 1433, 7, 5429, 1000, 140


def graph(rng: np.random.Generator, classes: np.ndarray) -> dict[int, list[int]]:
    """Return neighbours; four of five citations stay in the class, some nodes are cited often."""
    weight = rng.pareto(2.0, NODES) + 0.2
    members = [np.flatnonzero(classes == c) for c in range(CLASSES)]
    near: dict[int, list[int]] = {node: [] for node in range(NODES)}
    for edge in range(EDGES):
        a = edge % NODES
        pool = members[classes[a]] if rng.random() < 0.81 else np.arange(NODES)
        b = int(rng.choice(pool, p=weight[pool] / weight[pool].sum()))
        if a != b and b not in near[a]:
            near[a].append(b)
            near[b].append(a)
    return near


def features(rng: np.random.Generator, classes: np.ndarray) -> sp.csr_matrix:
    """Return a bag of words, about 18 of 1433 words a node, a third of them of its class."""
    own = [rng.choice(WORDS, 120, replace=False) for _ in range(CLASSES)]
    found = sp.lil_matrix((NODES, WORDS), dtype=np.float32)
    for node, c in enumerate(classes):
        count = int(rng.integers(9, 29))
        found[node, rng.choice(own[c], count // 3, replace=False)] = 1.0
        found[node, rng.choice(WORDS, count - count // 3, replace=False)] = 1.0
    return found.tocsr()


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "data" / "standin"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    share = [0.13, 0.08, 0.15, 0.30, 0.16, 0.11, 0.07]
    classes = rng.choice(CLASSES, NODES, p=share)
    classes[:TRAIN] = np.arange(TRAIN) % CLASSES
    words, near = features(rng, classes), graph(rng, classes)
    onehot = np.eye(CLASSES, dtype=np.int32)[classes]
    first = NODES - TEST
    order = first + rng.permutation(TEST)  # row i of tx is node order[i]
    parts = {
        "x": words[:TRAIN],
        "y": onehot[:TRAIN],
        "allx": words[:first],
        "ally": onehot[:first],
        "tx": words[order],
        "ty": onehot[order],
        "graph": near,
    }
    for name, part in parts.items():
        (folder / f"ind.standin.{name}").write_bytes(pickle.dumps(part, protocol=2))
    (folder / "ind.standin.test.index").write_text("".join(f"{i}\n" for i in order))
