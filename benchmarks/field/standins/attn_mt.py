"""Writes m30k_stand_in.pkl: 3200 + 400 pairs of made words, lengths as in Multi30k."""

import argparse
import random
import sys
from pathlib import Path

import dill
from torchtext.data import Dataset, Example, Field

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]
SETTINGS = {"lang_src": "de", "lang_trg": "en", "max_len": 100, "min_word_count": 3}


def sentence(rng: random.Random, words: list[str], weights: list[float], length: float) -> str:
    """Return a sentence of about that many words."""
    count = min(35, max(3, round(length)))
    return " ".join(rng.choices(words, weights, k=count))


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    marks = {"pad_token": "<blank>", "init_token": "<s>", "eos_token": "</s>"}
    fields = {"src": Field(lower=True, **marks), "trg": Field(lower=True, **marks)}
    words = {}
    for side in fields:
        made = sorted({"".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(2900)})
        rng.shuffle(made)
        words[side] = made[:2392]
    weights = [1 / (rank + 60) for rank in range(2392)]
    examples = []
    for _ in range(3600):
        length = rng.lognormvariate(2.507, 0.32)
        pair = [
            sentence(rng, words[side], weights, length + rng.gauss(0, shake))
            for side, shake in (("src", 0), ("trg", 1.5))
        ]
        examples.append(Example.fromlist(pair, list(fields.items())))
    train, valid = examples[:3200], examples[3200:]
    for side, field in fields.items():
        field.build_vocab(getattr(Dataset(train, fields.items()), side), min_freq=1)
    settings = argparse.Namespace(**SETTINGS)
    data = {"settings": settings, "vocab": fields, "train": train, "valid": valid, "test": valid}
    with open(checkout / "m30k_stand_in.pkl", "wb") as file:
        dill.dump(data, file)
