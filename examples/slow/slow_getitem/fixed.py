"""Who is speaking? Classify speeches from the plays by their speaker (top 12 + other)."""

import argparse
import re
import time
import unicodedata
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt"
MAX_TOKENS = 192
PAD = 0

URL = re.compile(r"https?://\S+|www\.\S+")
TAGS = re.compile(r"<[^>]+>")
NUMBERS = re.compile(r"\b\d+(?:[.,]\d+)*\b")
REPEATS = re.compile(r"([!?.,;:'-])\1+")
SPACES = re.compile(r"\s+")
WORDS = re.compile(r"'s|'d|'ll|'t|[a-z]+|<num>|[^\sa-z]")


def clean(text):
    text = unicodedata.normalize("NFKC", text)
    text = "".join(c for c in text if unicodedata.category(c)[0] != "C" or c == "\n")
    text = URL.sub(" ", text)
    text = TAGS.sub(" ", text)
    text = NUMBERS.sub("<num>", text)
    text = REPEATS.sub(r"\1", text)
    return SPACES.sub(" ", text).strip().lower()


def get_pairs(symbols):
    return {(a, b) for a, b in zip(symbols, symbols[1:], strict=False)}


class BPETokenizer:
    """Small byte pair encoding, after Sennrich et al."""

    def __init__(self, texts, n_merges=80):
        words = Counter(w for t in texts for w in WORDS.findall(clean(t)))
        splits = {w: (*w[:-1], w[-1] + "</w>") for w, _ in words.most_common(600)}
        self.ranks = {}
        for rank in range(n_merges):
            pairs = Counter()
            for w, symbols in splits.items():
                for pair in zip(symbols, symbols[1:], strict=False):
                    pairs[pair] += words[w]
            best = pairs.most_common(1)[0][0]
            self.ranks[best] = rank
            splits = {w: self.merge(s, best) if best[0] in s else s for w, s in splits.items()}
        symbols = {c for w in words for c in w} | {w[-1] + "</w>" for w in words}
        symbols |= {a + b for a, b in self.ranks}
        self.vocab = {s: i + 2 for i, s in enumerate(sorted(symbols))}  # 0 pad, 1 unk

    @staticmethod
    def merge(symbols, pair):
        out, i = [], 0
        while i < len(symbols):
            if i < len(symbols) - 1 and (symbols[i], symbols[i + 1]) == pair:
                out.append(symbols[i] + symbols[i + 1])
                i += 2
            else:
                out.append(symbols[i])
                i += 1
        return tuple(out)

    def encode(self, text):
        ids = []
        for word in WORDS.findall(clean(text)):
            symbols = (*word[:-1], word[-1] + "</w>")
            while len(symbols) > 1:
                pair = min(get_pairs(symbols), key=lambda p: self.ranks.get(p, 1 << 30))
                if pair not in self.ranks:
                    break
                symbols = self.merge(symbols, pair)
            ids.extend(self.vocab.get(s, 1) for s in symbols)
        return ids


class SpeechDataset(Dataset):
    def __init__(self, speeches, labels, tokenizer):
        self.ids = [torch.tensor(tokenizer.encode(s)[:MAX_TOKENS]) for s in speeches]
        self.labels = labels

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, idx):
        return self.ids[idx], self.labels[idx]


def collate(batch):
    ids, labels = zip(*batch, strict=True)
    ids = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    return ids, torch.tensor(labels)


class Classifier(nn.Module):
    """Mean of the embeddings and a hidden layer."""

    def __init__(self, vocab_size, n_classes, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.fc1 = nn.Linear(dim, 128)
        self.fc2 = nn.Linear(128, n_classes)

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1)
        h = (self.emb(ids) * mask).sum(1) / mask.sum(1)
        return self.fc2(F.relu(self.fc1(h)))


def load():
    speeches = []
    for block in DATA.read_text().split("\n\n"):
        speaker, _, speech = block.partition(":\n")
        if speech.strip():
            speeches.append((speaker, speech))
    top = [s for s, _ in Counter(s for s, _ in speeches).most_common(12)]
    labels = [top.index(s) if s in top else len(top) for s, _ in speeches]
    return [s for _, s in speeches], labels, len(top) + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    torch.manual_seed(0)

    speeches, labels, n_classes = load()
    tokenizer = BPETokenizer(speeches)
    dataset = SpeechDataset(speeches, labels, tokenizer)
    loader = DataLoader(
        dataset, batch_size=args.batch_size, shuffle=True, collate_fn=collate, num_workers=0
    )
    model = Classifier(len(tokenizer.vocab) + 2, n_classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"{len(dataset)} speeches, {n_classes} classes, vocab {len(tokenizer.vocab)}")

    start = time.time()
    for epoch in range(args.epochs):
        t0 = time.time()
        model.train()
        total, correct = 0.0, 0
        for ids, y in loader:
            logits = model(ids)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            correct += (logits.argmax(1) == y).sum().item()
        n = len(dataset)
        print(
            f"epoch {epoch + 1:2d} loss {total / n:.4f} acc {correct / n:.3f} "
            f"time {time.time() - t0:.1f}s"
        )
    print(f"done in {time.time() - start:.1f}s")
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), out / "model.pt")


if __name__ == "__main__":
    main()
