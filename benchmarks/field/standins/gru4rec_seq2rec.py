"""Stand-in for torch_seq2rec's GRU4Rec: Diginetica's views as its preprocessing leaves them."""

import sys
from pathlib import Path

import numpy as np

ITEMS, TRAIN, TEST = 12000, 5000, 400  # the real one: 43097 items, 190000 and 16000 sessions


def lines(rng: np.random.Generator, known: np.ndarray, first: int, count: int) -> list[str]:
    """Return rows of so many sessions, two to 70 clicks each and five in the mean."""
    rows = []
    for session in range(first, first + count):
        length = int(np.clip(2 + rng.geometric(0.27) - 1 + (rng.random() < 0.03) * 15, 2, 70))
        where, moment = rng.integers(len(known)), 1.46e9 + session * 60.0
        for _ in range(length):
            step = rng.normal(0, 40) if rng.random() < 0.7 else rng.integers(len(known))
            where = int(where + step) % len(known)
            moment += float(rng.exponential(60))
            rows.append(f"{session},{known[where]},{moment:.3f}\n")
    return rows


def main() -> None:
    """Write exp/diginetica/train.csv and test.csv, and the folder for the result."""
    checkout = Path(sys.argv[1])
    folder = checkout / "exp" / "diginetica"
    folder.mkdir(parents=True, exist_ok=True)
    (checkout / "result" / "diginetica").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(8)
    names = rng.permutation(200_000)[:ITEMS]
    train = lines(rng, names, 0, TRAIN)
    seen = np.array(list(dict.fromkeys(int(row.split(",")[1]) for row in train)))
    known = names[np.isin(names, seen)]
    head = "SessionID,ItemID,Time\n"
    (folder / "train.csv").write_text(head + "".join(train))
    (folder / "test.csv").write_text(head + "".join(lines(rng, known, TRAIN, TEST)))


if __name__ == "__main__":
    main()
