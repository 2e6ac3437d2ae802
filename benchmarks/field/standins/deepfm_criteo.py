"""Writes data/train.txt and feature_sizes.txt as dataPreprocess.py does: 10,000 rows.

A row has 13 clipped counts and 26 categories with the long tails of Criteo's.
A click depends on some of them.
"""

import sys
from pathlib import Path

import numpy as np

ROWS = 10_000
CLIP = [20, 600, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50]
SIZES = [80, 250, 3000, 2500, 60, 10, 2200, 100, 3, 2100, 1900, 2900, 1500]
SIZES += [20, 1700, 2800, 9, 900, 300, 4, 2850, 10, 14, 2400, 35, 1900]
random = np.random.default_rng(0)
counts = [np.minimum(random.lognormal(1.0, 1.5, ROWS).astype(int), most) for most in CLIP]
kinds = [np.minimum(random.zipf(1.3, ROWS) - 1, size - 1) for size in SIZES]
score = 0.05 * counts[0] + (kinds[0] % 3 == 1) - (kinds[5] == 0) - 1.0
click = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(int)
data = Path(sys.argv[1], "data")
names = ",".join([*(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)), "label"])
table = np.stack([*counts, *kinds, click], 1)
np.savetxt(data / "train.txt", table, fmt="%d", delimiter=",", header=names, comments="")
(data / "feature_sizes.txt").write_text(",".join(map(str, [*[1] * 13, *SIZES])) + "\n")
