"""Writes data/ml-1m (60 users, 1500 items, 3843 training instances); numpy's old names replaced."""

import random
import sys
from pathlib import Path

FILES = ("models/sequential/SASRec.py", "models/BaseModel.py", "utils/utils.py")
NAMES = (("np.int)", "int)"), ("np.object", "object"), ("is np.float ", "is float "))

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    lengths = [round(min(200, max(20, rng.lognormvariate(4.02, 0.6)))) for _ in range(60)]
    while total := sum(lengths) - 3 * 60 - 3843:  # two held back, the first one has no history
        at = rng.randrange(60)
        lengths[at] = min(200, max(20, lengths[at] - (1 if total > 0 else -1)))
    weights = [1 / (rank + 30) for rank in range(1500)]
    rows: dict[str, list[tuple[int, int, int]]] = {"train": [], "dev": [], "test": []}
    for user, length in enumerate(lengths, 1):
        seen: dict[int, None] = {}
        while len(seen) < length:
            seen[rng.choices(range(1, 1501), weights)[0]] = None
        time = rng.randint(956_700_000, 1_000_000_000)
        for at, item in enumerate(seen):
            time += rng.randint(5, 600)
            part = "train" if at < length - 2 else "dev" if at == length - 2 else "test"
            rows[part].append((time, user, item))
    rows["train"][-1] = (*rows["train"][-1][:2], 1500)
    folder = checkout / "data" / "ml-1m"
    folder.mkdir(parents=True, exist_ok=True)
    for part, some in rows.items():
        lines = [f"{user}\t{item}\t{time}\n" for time, user, item in sorted(some)]
        (folder / f"{part}.csv").write_text("".join(["user_id\titem_id\ttime\n", *lines]))
    for name in FILES:
        file = checkout / "src" / name
        text = file.read_text().replace("is np.int ", "is int ")
        for old, new in NAMES:
            text = text.replace(old, new)
        file.write_text(text)
