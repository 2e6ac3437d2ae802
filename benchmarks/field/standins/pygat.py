"""Writes data/cora/cora.{content,cites}: 1500 papers, 400 words, 7 classes, 3000 citations."""

import random
import sys
from pathlib import Path

if __name__ == "__main__":
    cora, rng = Path(sys.argv[1]) / "data" / "cora", random.Random(0)
    cora.mkdir(parents=True, exist_ok=True)
    papers = rng.sample(range(1000, 99999), 1500)
    classes = [rng.randrange(7) for _ in papers]
    rows = []
    for paper, label in zip(papers, classes, strict=True):
        own = rng.sample(range(label * 50, label * 50 + 100), 7)  # words of the subject
        seen = {*own, *rng.sample(range(400), 11)}
        words = "\t".join("1" if word in seen else "0" for word in range(400))
        rows.append(f"{paper}\t{words}\tSubject_{label}\n")
    (cora / "cora.content").write_text("".join(rows))
    groups = [[p for p, c in zip(papers, classes, strict=True) if c == k] for k in range(7)]
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < 3000:
        at = rng.randrange(1500)
        cited = rng.choice(groups[classes[at]] if rng.random() < 0.8 else papers)
        if cited != papers[at] and (papers[at], cited) not in pairs:
            pairs.add((cited, papers[at]))
    (cora / "cora.cites").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(pairs)))
