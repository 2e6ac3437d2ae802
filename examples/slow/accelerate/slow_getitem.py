"""Bag of words: which play is the line from? Training loop with Accelerate."""

import argparse
import re
import time
from collections import Counter
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset

SUFFIXES = ["ations", "ation", "nesses", "ness", "ments", "ment", "ingly", "edly", "ings", "ing"]
SUFFIXES += ["eth", "est", "ies", "ied", "ers", "er", "ed", "ly", "es", "s"]
CONTRACTIONS = {
    r"\b(\w+)'ll\b": r"\1 will",
    r"\b(\w+)'d\b": r"\1 would",
    r"\b't(is|was|were)\b": r"it \1",
    r"\bo'er\b": "over",
    r"\bne'er\b": "never",
    r"\be'en\b": "even",
    r"\bi'(?:faith|sooth)\b": "truly",
    r"\bth'(\w+)": r"the \1",
    r"\b(?:thou|thee|ye)\b": "you",
    r"\b(?:thy|thine)\b": "your",
    r"\bhath\b": "has",
    r"\bdoth\b": "does",
}


def stem(word):
    for suffix in SUFFIXES:
        if re.search(rf"(?<=\w\w\w){suffix}$", word):
            return re.sub(rf"{suffix}$", "", word)
    return word


def preprocess(line):
    line = line.lower().strip()
    for pattern, replacement in CONTRACTIONS.items():
        line = re.sub(pattern, replacement, line)
    line = re.sub(r"[^a-z' ]", " ", line)
    return [stem(w) for w in re.findall(r"[a-z]+", line)]


class LineDataset(Dataset):
    def __init__(self, lines, labels, vocab):
        self.lines, self.labels, self.vocab = lines, labels, vocab

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, idx):
        bag = torch.zeros(len(self.vocab) + 1)
        tokens = preprocess(self.lines[idx])
        for a in tokens:
            bag[self.vocab.get(a, -1)] += 1
        return bag, self.labels[idx]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(8)

    raw = (Path(__file__).resolve().parents[1] / "data/shakespeare.txt").read_text()
    lines = [ln for ln in raw.splitlines() if len(ln) > 20]
    border = next(i for i, ln in enumerate(lines) if ln.startswith("Now is the winter"))
    labels = [int(i >= border) for i in range(len(lines))]
    counts = Counter(w for ln in lines[::2] for w in preprocess(ln))
    vocab = {w: i for i, (w, _) in enumerate(counts.most_common(800))}

    train = LineDataset(lines, labels, vocab)
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(len(vocab) + 1, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    loss_fn = nn.CrossEntropyLoss()
    accelerator.print(f"{len(lines)} lines, {len(vocab)} stems, {len(loader)} batches")

    for epoch in range(args.num_epochs):
        start, total = time.time(), 0.0
        for batch, target in loader:
            loss = loss_fn(model(batch), target)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        took = time.time() - start
        accelerator.print(f"epoch {epoch}: loss {total / len(loader):.4f} in {took:.1f}s")

    Path(args.out).mkdir(parents=True, exist_ok=True)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), Path(args.out) / "bow.pt")


if __name__ == "__main__":
    main()
