"""Movie review polarity with a small transformer encoder."""

import argparse
import json
import random
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
PAD, UNK = 0, 1
MAX_LEN = 128


def load_reviews(path):
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    random.Random(0).shuffle(rows)
    return rows


def build_vocab(rows, min_count=2):
    counts = Counter(tok for row in rows for tok in row["text"].split())
    words = [w for w, c in counts.most_common() if c >= min_count]
    return {w: i + 2 for i, w in enumerate(words)}


class ReviewDataset(Dataset):
    def __init__(self, rows, vocab):
        self.examples = []
        for row in rows:
            ids = [vocab.get(t, UNK) for t in row["text"].split()][:MAX_LEN]
            ids = ids + [PAD] * (MAX_LEN - len(ids))
            self.examples.append((torch.tensor(ids), row["label"]))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


def collate(batch):
    ids = torch.stack([b[0] for b in batch])
    labels = torch.tensor([b[1] for b in batch])
    return ids, labels


class ReviewClassifier(nn.Module):
    def __init__(self, vocab_size, dim=48, heads=4, layers=1):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, dim * 2, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        mask = ids == PAD
        positions = torch.arange(ids.size(1), device=ids.device)
        x = self.tok(ids) + self.pos(positions)
        x = self.encoder(x, src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1).float()
        x = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(x)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = total = 0
    for ids, labels in loader:
        right += (model(ids).argmax(1) == labels).sum().item()
        total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    rows = load_reviews(HERE / "reviews.jsonl")
    train_rows, test_rows = rows[:1100], rows[1100:]
    vocab = build_vocab(train_rows)
    train_loader = DataLoader(
        ReviewDataset(train_rows, vocab), batch_size=32, shuffle=True, collate_fn=collate
    )
    test_loader = DataLoader(ReviewDataset(test_rows, vocab), batch_size=64, collate_fn=collate)

    model = ReviewClassifier(len(vocab) + 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for ids, labels in train_loader:
            loss = F.cross_entropy(model(ids), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        acc = accuracy(model, test_loader)
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} test acc {acc:.3f}")

    torch.save(model.state_dict(), out / "model.pt")


if __name__ == "__main__":
    main()
