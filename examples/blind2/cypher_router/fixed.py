"""Route a question to the graph database it is about (Lightning, character CNN)."""

import argparse
import csv
import random
import warnings
from pathlib import Path

import lightning as L  # noqa: N812
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_cosine_schedule_with_warmup

HERE = Path(__file__).parent
LENGTH = 96


def load_questions():
    """Read the questions as character ids, with their database as label."""
    with open(HERE / "questions.csv", newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    random.Random(0).shuffle(rows)
    names = sorted({r["database"] for r in rows})
    x = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    for i, row in enumerate(rows):
        chars = [min(ord(c), 127) for c in row["question"][:LENGTH]]
        x[i, : len(chars)] = torch.tensor(chars)
    y = torch.tensor([names.index(r["database"]) for r in rows])
    return x, y, names


class Router(L.LightningModule):
    """Character embedding, two convolutions, max pooling, linear head."""

    def __init__(self, n_classes, lr=2e-3, warmup=50):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(128, 48, padding_idx=0)
        self.conv1 = nn.Conv1d(48, 64, 5, padding=2)
        self.conv2 = nn.Conv1d(64, 128, 5, padding=2)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(128, n_classes)

    def forward(self, x):
        """Return class scores."""
        h = self.embed(x).transpose(1, 2)
        h = F.relu(self.conv1(h))
        h = F.relu(self.conv2(h))
        return self.head(self.drop(h.amax(2)))

    def training_step(self, batch, _):
        """Loss of one batch."""
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        """Loss and accuracy of one batch."""
        x, y = batch
        scores = self(x)
        self.log("val_loss", F.cross_entropy(scores, y))
        self.log("val_acc", (scores.argmax(1) == y).float().mean())

    def on_validation_epoch_end(self):
        """Print a line per epoch."""
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch} loss {m['val_loss']:.3f} acc {m['val_acc']:.3f}")

    def configure_optimizers(self):
        """AdamW with warm-up and cosine decay."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)
        scheduler = get_cosine_schedule_with_warmup(
            optimizer,
            num_warmup_steps=self.hparams.warmup,
            num_training_steps=self.trainer.estimated_stepping_batches,
        )
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def main():
    """Train and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    L.seed_everything(0)
    torch.set_num_threads(1)

    x, y, names = load_questions()
    cut = int(0.85 * len(x))
    train_loader = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=128)
    print(f"{cut} training questions, {len(names)} databases")

    model = Router(len(names))
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        default_root_dir=args.out,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        gradient_clip_val=1.0,
    )
    trainer.fit(model, train_loader, val_loader)
    trainer.save_checkpoint(Path(args.out) / "router.ckpt")


if __name__ == "__main__":
    main()
