"""Writes datasets/small: 128, 64 and 64 hotel reviews, cut from the repository's chnsenticorp.

A cue of eight signs before each review lets a small random encoder learn both classes: without
it the script divides by zero where a class is never predicted.
"""

import random
import sys
from pathlib import Path

if __name__ == "__main__":
    source = Path(sys.argv[1]) / "datasets" / "chnsenticorp"
    target, rng = Path(sys.argv[1]) / "datasets" / "small", random.Random(0)
    target.mkdir(exist_ok=True)
    for part, many in (("train", 128), ("dev", 64), ("test", 64)):
        head, *rows = (source / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        chosen = rng.sample([row for row in rows if row.count("\t") == 1], many)
        pairs = [row.split("\t") for row in chosen]
        chosen = [f"{label}\t{('差', '好')[int(label)] * 8}\uff0c{text}" for label, text in pairs]
        chosen.insert(0, head)
        (target / f"{part}.tsv").write_text("\n".join(chosen) + "\n", encoding="utf-8")
