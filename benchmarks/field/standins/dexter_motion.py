"""Stand-in for dexter's motion model: hand landmarks of four moments for five motions as CSV."""

import sys
from pathlib import Path

import numpy as np

ROWS, CLASSES, MOMENTS, POINTS = 6000, 5, 4, 21  # the repository has 60 rows


def main() -> None:
    """Write csv/motion.csv: label, hand, and 4 x 21 x 3 coordinates of a hand that moves."""
    rng = np.random.default_rng(7)
    way = np.array([[0, 0], [0, -0.2], [0, 0.2], [-0.2, 0], [0.2, 0]])
    shape = rng.normal(0, 0.12, size=(POINTS, 3))
    labels = rng.integers(CLASSES, size=ROWS)
    rows = np.empty((ROWS, 2 + MOMENTS * POINTS * 3))
    rows[:, 0] = labels
    rows[:, 1] = rng.integers(2, size=ROWS)
    start = rng.uniform(0.3, 0.7, size=(ROWS, 2))
    for moment in range(MOMENTS):
        hand = shape * rng.uniform(0.7, 1.3, size=(ROWS, 1, 1))
        hand = hand + rng.normal(0, 0.03, size=hand.shape)
        hand[:, :, :2] += (start + way[labels] * moment / 3)[:, None]
        hand[:, :, :2] += rng.normal(0, 0.06, size=(ROWS, 1, 2))  # it shakes
        at = 2 + moment * POINTS * 3
        rows[:, at : at + POINTS * 3] = hand.reshape(ROWS, -1)
    wrong = rng.random(ROWS) < 0.04
    rows[wrong, 0] = rng.integers(CLASSES, size=wrong.sum())
    folder = Path(sys.argv[1]) / "Core" / "gesture" / "csv"
    np.savetxt(folder / "motion.csv", rows, delimiter=",", fmt="%.17g")


if __name__ == "__main__":
    main()
