# Which of the two plays is a speech from? DistilBERT-like model from scratch with the HF Trainer.
import argparse
import os
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--max_length", type=int, default=192)
parser.add_argument("--epochs", type=float, default=1)
args = parser.parse_args()

os.environ["TOKENIZERS_PARALLELISM"] = "false"

raw = (Path(__file__).resolve().parents[1] / "data" / "shakespeare.txt").read_text()
border = raw.index("Now is the winter")
texts, labels, at = [], [], 0
for block in raw.split("\n\n"):
    if ":\n" in block:
        texts.append(block.split(":\n", 1)[1])
        labels.append(int(at >= border))
    at += len(block) + 2

tok = Tokenizer(models.WordLevel(unk_token="[UNK]"))
tok.normalizer = normalizers.Lowercase()
tok.pre_tokenizer = pre_tokenizers.Whitespace()
tok.train_from_iterator(
    texts, trainers.WordLevelTrainer(vocab_size=4000, special_tokens=["[PAD]", "[UNK]"])
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]")

encodings = tokenizer(texts, padding="max_length", truncation=True, max_length=args.max_length)
examples = [
    {"input_ids": ids, "attention_mask": mask, "labels": label}
    for ids, mask, label in zip(
        encodings["input_ids"], encodings["attention_mask"], labels, strict=True
    )
]
order = np.random.default_rng(0).permutation(len(examples))
test = [examples[i] for i in order[:120]]
train = [examples[i] for i in order[120:]]

config = DistilBertConfig(
    vocab_size=len(tokenizer), dim=48, n_layers=2, n_heads=4, hidden_dim=96, num_labels=2
)
model = DistilBertForSequenceClassification(config)

training_args = TrainingArguments(
    output_dir=args.out,
    num_train_epochs=args.epochs,
    per_device_train_batch_size=10,
    per_device_eval_batch_size=40,
    learning_rate=1e-3,
    warmup_steps=20,
    logging_steps=20,
    save_strategy="no",
    report_to="none",
    seed=3,
    use_cpu=True,
    dataloader_pin_memory=False,
)


def compute_metrics(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


trainer = Trainer(
    model=model,
    args=training_args,
    train_dataset=train,
    eval_dataset=test,
    compute_metrics=compute_metrics,
)
metrics = trainer.train().metrics
print("trained in", round(metrics["train_runtime"], 1), "s")
print("test", trainer.evaluate())
trainer.save_model(os.path.join(args.out, "final"))
