"""Tiny word-level GPT-2 on a slice of WikiText-2, trained with the HF Trainer."""

import argparse
from collections import Counter
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

HERE = Path(__file__).parent
BLOCK = 64


class Blocks(Dataset):
    """A token stream cut into blocks of equal length."""

    def __init__(self, ids):
        n = len(ids) // BLOCK
        self.blocks = torch.tensor(ids[: n * BLOCK]).view(n, BLOCK)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i]}


def load_tokens(vocab_size):
    """Read the text and map the most frequent words to ids."""
    words = (HERE / "wiki.txt").read_text(encoding="utf-8").lower().split()
    vocab = {"<unk>": 0}
    for word, _ in Counter(words).most_common():
        if len(vocab) == vocab_size:
            break
        vocab.setdefault(word, len(vocab))
    return [vocab.get(w, 0) for w in words], vocab


def compute_metrics(eval_pred):
    """Next-word accuracy, with and without the unknown word."""
    logits, labels = eval_pred
    preds = logits.argmax(-1)[:, :-1]
    targets = labels[:, 1:]
    hit = preds == targets
    known = targets != 0
    return {"accuracy": float(hit.mean()), "accuracy_known": float(hit[known].mean())}


def main():
    """Train and evaluate after each epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=4000)
    args = parser.parse_args()
    set_seed(0)
    torch.set_num_threads(1)

    ids, vocab = load_tokens(args.vocab)
    cut = int(len(ids) * 0.55)
    train_set, eval_set = Blocks(ids[:cut]), Blocks(ids[cut:])
    print(f"{len(vocab)} words, {len(train_set)} train blocks, {len(eval_set)} eval blocks")

    config = GPT2Config(
        vocab_size=len(vocab),
        n_positions=BLOCK,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)

    training_args = TrainingArguments(
        output_dir=args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        learning_rate=4e-3,
        warmup_steps=10,
        weight_decay=0.01,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=20,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_set,
        eval_dataset=eval_set,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    trainer.save_model(str(Path(args.out) / "final"))


if __name__ == "__main__":
    main()
