"""GRU tagger: is a word followed by punctuation? Lightning with a data module."""

import argparse
import re
import time
from pathlib import Path

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

IGNORE = -100


class SpeechData(L.LightningDataModule):
    def __init__(self, max_len=192, batch_size=10):
        super().__init__()
        self.max_len = max_len
        self.batch_size = batch_size
        self.path = Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt"
        blocks = self.path.read_text().split("\n\n")
        self.speeches = [b.split(":\n", 1)[1] for b in blocks if ":\n" in b]
        words = re.findall(r"[a-z']+", " ".join(self.speeches).lower())
        self.vocab = {w: i + 1 for i, w in enumerate(sorted(set(words)))}

    def setup(self, stage=None):
        inputs = torch.zeros(len(self.speeches), self.max_len, dtype=torch.long)
        targets = torch.full((len(self.speeches), self.max_len), IGNORE)
        for row, speech in enumerate(self.speeches):
            pairs = re.findall(r"([a-z']+)([.,;:!?]?)", speech.lower())[: self.max_len]
            for col, (word, mark) in enumerate(pairs):
                inputs[row, col] = self.vocab[word]
                targets[row, col] = int(bool(mark))
        has_words = (targets != IGNORE).any(1)
        inputs, targets = inputs[has_words], targets[has_words]
        self.train_set = TensorDataset(inputs[:-150], targets[:-150])
        self.val_set = TensorDataset(inputs[-150:], targets[-150:])

    def train_dataloader(self):
        return DataLoader(self.train_set, self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, 50)


class Tagger(L.LightningModule):
    def __init__(self, vocab_size, dim=32, lr=3e-3):
        super().__init__()
        self.lr = lr
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * dim, 2)

    def forward(self, x):
        return self.head(self.rnn(self.emb(x))[0])

    def loss(self, batch):
        x, y = batch
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten(), ignore_index=IGNORE)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        if self.global_step % 25 == 0:
            print(f"step {self.global_step} loss {loss.item():.4f}")
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    L.seed_everything(5)
    data = SpeechData()
    model = Tagger(len(data.vocab) + 1)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        num_sanity_val_steps=0,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=args.out,
    )
    t0 = time.time()
    trainer.fit(model, datamodule=data)
    val = trainer.callback_metrics["val_loss"].item()
    print(f"val loss {val:.4f}, {trainer.global_step} steps, {time.time() - t0:.1f} s")
    trainer.save_checkpoint(Path(args.out) / "tagger.ckpt")


if __name__ == "__main__":
    main()
