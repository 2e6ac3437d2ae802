"""Writes examples/: nyu-mll/glue (MRPC's sizes), bert-base-cased (tiny, random), glue/glue.py."""

import random
import sys
from pathlib import Path

import pandas as pd
import torch
import words
from transformers import BertConfig, BertForSequenceClassification

CARD = """---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: mrpc/train.parquet}
  - {split: validation, path: mrpc/validation.parquet}
  - {split: test, path: mrpc/test.parquet}
---
"""
METRIC = '''"""Accuracy and F1 of MRPC."""

import datasets
import evaluate
from sklearn.metrics import f1_score


class Glue(evaluate.Metric):
    def _info(self):
        kinds = {name: datasets.Value("int64") for name in ("predictions", "references")}
        features = datasets.Features(kinds)
        return evaluate.MetricInfo(
            description="MRPC", citation="", inputs_description="", features=features
        )

    def _compute(self, predictions, references):
        same = sum(a == b for a, b in zip(predictions, references))
        return {"accuracy": same / len(references), "f1": float(f1_score(references, predictions))}
'''

if __name__ == "__main__":
    examples, rng = Path(sys.argv[1]) / "examples", random.Random(0)
    known = words.made(rng, 3000)
    glue = examples / "nyu-mll" / "glue"
    (glue / "mrpc").mkdir(parents=True, exist_ok=True)
    (glue / "README.md").write_text(CARD)
    for split, count in (("train", 3668), ("validation", 408), ("test", 1725)):
        rows = []
        for number in range(count):
            length = rng.gauss(25.2, 6)
            pair = [round(min(44, max(7, length + rng.gauss(0, 1.2)))) for _ in range(2)]
            texts = [words.sentence(rng, known, n) for n in pair]
            label = int(rng.random() < 0.67)
            rows.append(
                {"sentence1": texts[0], "sentence2": texts[1], "label": label, "idx": number}
            )
        pd.DataFrame(rows).to_parquet(glue / "mrpc" / f"{split}.parquet")
    (examples / "glue").mkdir(exist_ok=True)
    (examples / "glue" / "glue.py").write_text(METRIC)
    tokenizer = words.bert_tokenizer(known, 512)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=256, **sizes)
    BertForSequenceClassification(config).save_pretrained(examples / "bert-base-cased")
    tokenizer.save_pretrained(examples / "bert-base-cased")
