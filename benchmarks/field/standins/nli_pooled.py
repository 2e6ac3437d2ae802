"""Stand-in for ElianBelot/natural_language_inference: pairs in the layout of its json files."""

import itertools
import json
import random
import sys
from pathlib import Path

import words

COUNTS = {"train": 220_000, "validation": 6_600}


def main() -> None:
    """Write two hypotheses a premise (7, 14 words in the mean); the label goes by shared words."""
    folder, rng = Path(sys.argv[1]) / "data", random.Random(3)
    folder.mkdir(parents=True, exist_ok=True)
    known = words.made(rng, 15_000)
    spread = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(known))))
    for part, count in COUNTS.items():
        parts: dict[str, list] = {"premise": [], "hypothesis": [], "label": []}
        for _ in range(count // 2):
            length = min(max(int(rng.gauss(14, 6)), 3), 60)
            told = rng.choices(known, cum_weights=spread, k=length)
            for label in rng.sample((0, 1), 2):
                size = min(max(int(rng.gauss(7.5, 3)), 2), 30)
                fresh = rng.choices(known, cum_weights=spread, k=size)
                kept = 0.6 if label else 0.1
                mixed = [rng.choice(told) if rng.random() < kept else word for word in fresh]
                parts["premise"].append(" ".join(told).capitalize() + ".")
                parts["hypothesis"].append(" ".join(mixed).capitalize() + ".")
                parts["label"].append(label)
        (folder / f"{part}.json").write_text(json.dumps(parts))


if __name__ == "__main__":
    main()
