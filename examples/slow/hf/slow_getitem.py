"""Fine-tune a tiny BERT (random weights) to tell who speaks; HF Trainer."""

import argparse
import difflib
import re
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

DATA = Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt"


def load_speeches(n_speakers=6):
    blocks = [b.split(":\n", 1) for b in DATA.read_text().split("\n\n") if ":\n" in b]
    speakers = [w for w, _ in Counter(b[0] for b in blocks).most_common(n_speakers)]
    return [(text, speakers.index(who)) for who, text in blocks if who in speakers]


def train_tokenizer(texts):
    tok = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tok.normalizer = normalizers.Lowercase()
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(vocab_size=1500, special_tokens=["[PAD]", "[UNK]"])
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]")


class SpeechDataset(Dataset):
    """Rare words are replaced by the nearest frequent one (old spelling, typos) on the fly."""

    def __init__(self, rows, tokenizer):
        self.rows = rows
        self.tokenizer = tokenizer
        counts = Counter(re.findall(r"[a-z']+", " ".join(t for t, _ in rows).lower()))
        self.known = [w for w, _ in counts.most_common(1000)]
        self.known_set = set(self.known)

    def __len__(self):
        return len(self.rows)

    def normalise(self, text):
        words = []
        for word in re.findall(r"[a-z']+|[.,;:!?]", text.lower()):
            if len(word) > 5 and word not in self.known_set:
                near = difflib.get_close_matches(word, self.known, n=1, cutoff=0.75)
                word = near[0] if near else word
            words.append(word)
        return " ".join(words)

    def __getitem__(self, i):
        text, label = self.rows[i]
        enc = self.tokenizer(self.normalise(text), truncation=True, max_length=96)
        return {
            "input_ids": enc["input_ids"],
            "attention_mask": enc["attention_mask"],
            "labels": label,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    set_seed(0)
    rows = load_speeches()
    tokenizer = train_tokenizer([t for t, _ in rows])
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=96,
            num_labels=6,
        )
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.out,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=8,
            learning_rate=2e-3,
            logging_steps=25,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            dataloader_num_workers=0,
            dataloader_pin_memory=False,
        ),
        train_dataset=SpeechDataset(rows, tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    result = trainer.train()
    print(f"train loss {result.training_loss:.4f}, {result.metrics['train_runtime']:.1f} s")
    torch.save(model.state_dict(), Path(args.out) / "bert.pt")


if __name__ == "__main__":
    main()
