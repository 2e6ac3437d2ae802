"""Writes ml-100k/u.data: 100,000 made-up ratings of 943 users for 1682 films."""

import sys
from pathlib import Path

import numpy as np

USERS, ITEMS, RATINGS = 943, 1682, 100_000

if __name__ == "__main__":
    folder, rng = Path(sys.argv[1]) / "ml-100k", np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    user_weight = rng.gamma(1.1, 1.0, USERS) + 0.15
    item_weight = 1 / (np.arange(ITEMS) + 40.0)
    weight = np.outer(user_weight, item_weight).ravel()
    covering = [u * ITEMS + u for u in range(USERS)] + [i % USERS * ITEMS + i for i in range(ITEMS)]
    chosen = rng.choice(weight.size, RATINGS, replace=False, p=weight / weight.sum())
    pairs = list(dict.fromkeys([*covering, *chosen.tolist()]))[:RATINGS]
    rng.shuffle(pairs)
    users, items = np.divmod(np.array(pairs), ITEMS)
    taste, worth = rng.normal(size=(USERS, 3)) * 0.6, rng.normal(size=(ITEMS, 3)) * 0.6
    liking = (taste[users] * worth[items]).sum(1) + rng.normal(0, 0.8, RATINGS) + 3.6
    stars = np.clip(np.round(liking), 1, 5).astype(int)
    times = rng.integers(874_724_710, 893_286_638, RATINGS)
    rows = zip(users + 1, items + 1, stars, times, strict=True)
    (folder / "u.data").write_text("".join(f"{u}\t{i}\t{r}\t{t}\n" for u, i, r, t in rows))
