"""Stand-in pairs for coetaur0/ESIM: SNLI as its preprocessing leaves it (pickled word indices)."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

WORDS, TRAIN, DEV = 9000, 1280, 256


def main() -> None:
    """Write train_data, dev_data and embeddings, a short config, and a link to the package."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(41)
    rank = 1 / np.arange(1, WORDS + 1)
    chance = rank / rank.sum()
    raw = {}
    for name, rows in (("train", TRAIN), ("dev", DEV)):
        raw[name] = []
        for _ in range(rows):
            first = int(np.clip(rng.lognormal(2.55, 0.42), 3, 78))
            second = int(np.clip(rng.lognormal(2.0, 0.38), 2, 40))
            premise = rng.choice(WORDS, first, p=chance)
            hypothesis = rng.choice(WORDS, second, p=chance)
            shared = rng.random(second) < 0.4
            hypothesis[shared] = rng.choice(premise, int(shared.sum()))
            raw[name].append((premise, hypothesis, int(rng.integers(3))))
    counts = np.zeros(WORDS, dtype=int)
    for premise, hypothesis, _ in raw["train"]:
        np.add.at(counts, premise, 1)
        np.add.at(counts, hypothesis, 1)
    order = [int(w) for w in np.argsort(-counts, kind="stable") if counts[w]]
    index = {w: i + 4 for i, w in enumerate(order)}  # after _PAD_, _OOV_, _BOS_ and _EOS_
    target = checkout / "data" / "preprocessed" / "SNLI"
    target.mkdir(parents=True, exist_ok=True)
    for name, rows in raw.items():
        data = {"ids": [], "premises": [], "hypotheses": [], "labels": []}
        for number, (premise, hypothesis, label) in enumerate(rows):
            data["ids"].append(f"{name}{number}.jpg#0r1n")
            data["premises"].append([2, *(index.get(int(w), 1) for w in premise), 3])
            data["hypotheses"].append([2, *(index.get(int(w), 1) for w in hypothesis), 3])
            data["labels"].append(label)
        (target / f"{name}_data.pkl").write_bytes(pickle.dumps(data))
    vectors = rng.normal(0, 0.4, (len(order) + 4, 300))
    vectors[0] = 0
    (target / "embeddings.pkl").write_bytes(pickle.dumps(vectors))
    config = json.loads((checkout / "config/training/snli_training.json").read_text())
    config["epochs"] = 2
    (checkout / "config/training/short.json").write_text(json.dumps(config, indent=4))
    link = checkout / "scripts" / "training" / "esim"  # the README installs the package
    if not link.exists():
        link.symlink_to("../../esim")


if __name__ == "__main__":
    main()
