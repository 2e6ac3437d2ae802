"""Stand-in for renmindata.pkl: pieces of the People's Daily with names, padded to 60 characters."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd

PIECES, CHARACTERS, MOST = 1500, 4500, 60  # the real one: 37924 pieces, 4768 characters


def main() -> None:
    """Write the six arrays in the order in which main.py reads them."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(9)
    words = [chr(0x4E00 + k) for k in range(CHARACTERS)]
    word2id = pd.Series(range(1, CHARACTERS + 1), index=words)
    word2id["unknow"] = len(word2id) + 1
    kinds = ("nr", "ns", "nt")
    tags = ["", "O"] + [f"{place}_{kind}" for kind in kinds for place in "BME"]
    tag2id = pd.Series(range(len(tags)), index=tags)
    common = np.minimum(rng.zipf(1.3, size=200_000), CHARACTERS)
    surname = {kind: rng.integers(1, CHARACTERS, size=60) for kind in kinds}
    xs, ys = [], []
    for _ in range(PIECES):
        length = int(np.clip(rng.lognormal(2.6, 0.6), 3, 120))  # 16 characters in the mean
        x = list(rng.choice(common, size=length))
        y = [int(tag2id["O"])] * length
        for _ in range(int(rng.integers(1, 3))):
            kind = kinds[int(rng.integers(3))]
            size = int(rng.integers(2, 4 if kind != "nt" else 9))
            if size > length:
                continue
            at = int(rng.integers(length - size + 1))
            x[at] = int(rng.choice(surname[kind]))
            y[at : at + size] = [int(tag2id[f"{p}_{kind}"]) for p in "B" + "M" * (size - 2) + "E"]
        xs.append((x + [0] * MOST)[:MOST])
        ys.append((y + [0] * MOST)[:MOST])
    x, y = np.asarray(xs), np.asarray(ys)
    test, valid = int(PIECES * 0.2), int(PIECES * 0.16)
    parts = (word2id, tag2id, x[test + valid :], y[test + valid :])
    parts += (x[:test], y[:test], x[test : test + valid], y[test : test + valid])
    with (checkout / "task4" / "renmindata.pkl").open("wb") as file:
        for part in parts:
            pickle.dump(part, file)


if __name__ == "__main__":
    main()
