"""Writes data/train.bin and data/val.bin (uint16 tokens of recipes made from a grammar) and data/meta.json."""

import json
import os
import random

import numpy as np

FOODS = "rice beans leeks fennel carrots lentils barley plums trout beets onions cabbage pears turnips walnuts".split()
VERBS = "chop wash peel slice dry roast boil steam grate mash salt".split()
TOOLS = ["a pan", "a deep pot", "the oven", "a clean bowl", "two spoons"]


def recipe(rng):
    foods = rng.sample(FOODS, rng.randint(2, 4))
    lines = [f"# {' and '.join(foods)}"]
    for f in foods:
        lines.append(
            f"- {rng.choice(VERBS)} the {f} in {rng.choice(TOOLS)} for {rng.randint(1, 12) * 5} minutes"
        )
    lines.append(f"serve {len(foods)} things: {', '.join(foods)}.\n\n")
    return "\n".join(lines)


def main(folder, n=6000, seed=5):
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(seed)
    docs = [recipe(rng) for _ in range(n)]
    chars = sorted(set("".join(docs)))
    stoi = {c: i for i, c in enumerate(chars)}
    cut = int(0.95 * n)
    for name, part in (("train", docs[:cut]), ("val", docs[cut:])):
        np.array([stoi[c] for c in "".join(part)], dtype=np.uint16).tofile(
            os.path.join(folder, f"{name}.bin")
        )
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump({"vocab_size": len(chars), "stoi": stoi, "documents": n, "seed": seed}, f)


if __name__ == "__main__":
    main("out/data")
