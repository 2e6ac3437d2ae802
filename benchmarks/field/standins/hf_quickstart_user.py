"""Writes, beside trainer_test.py, a local rotten_tomatoes and a tiny distilbert/distilbert-base-
uncased. The reviews are made sentences of 1 to 55 words (21 in the mean, as in Rotten Tomatoes)
of two classes in equal number; the model is a DistilBERT of random weights with its own
WordPiece vocabulary.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from transformers import BertTokenizerFast, DistilBertConfig, DistilBertForSequenceClassification

PARTS = {"train": 3200, "validation": 320, "test": 320}


def word(rng: random.Random) -> str:
    """A made word of one to four syllables."""
    return "".join(
        rng.choice("bcdfglmnprst") + rng.choice("aeiou") for _ in range(rng.choice([1, 2, 2, 3, 4]))
    )


def main(folder: Path) -> None:
    """Write data and model."""
    rng = random.Random(7)
    words = sorted({word(rng) for _ in range(3000)})
    marks = [rng.sample(words, 60) for _ in range(2)]
    (folder / "rotten_tomatoes").mkdir(exist_ok=True)
    for part, count in PARTS.items():
        rows = []
        for number in range(count):
            label = int(number < count / 2)  # the real files hold all of one class, then the other
            length = min(55, max(1, round(rng.gauss(21, 9.4))))
            text = " ".join(
                rng.choice(marks[label] if rng.random() < 0.15 else words) for _ in range(length)
            )
            rows.append(json.dumps({"text": text + " .", "label": label}))
        (folder / "rotten_tomatoes" / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
    model = folder / "distilbert/distilbert-base-uncased"
    model.mkdir(parents=True, exist_ok=True)
    letters = "abcdefghijklmnopqrstuvwxyz."
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *("##" + c for c in letters),
    ]
    vocabulary += [w for w in words if len(w) > 1]
    (model / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizerFast(str(model / "vocab.txt"), model_max_length=512)
    tokenizer.save_pretrained(model)
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=128, hidden_dim=512, n_layers=2, n_heads=4
    )
    DistilBertForSequenceClassification(config).save_pretrained(model)


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "transformers_learn/quickstart")
