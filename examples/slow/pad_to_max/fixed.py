# Transformer encoder that tells Coriolanus from Richard III (and which side of the stage...)
# usage: python train.py [--epochs 2] [--out out]
import argparse
import os
import re
import time
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader

here = os.path.dirname(os.path.abspath(__file__))

MAX_LENGTH = 384
N_SPEAKERS = 8


def read_speeches(path):
    with open(path, encoding="utf-8") as f:
        raw = f.read()
    pairs = []
    for para in raw.split("\n\n"):
        if ":\n" not in para:
            continue
        who, what = para.split(":\n", 1)
        pairs.append((who.strip(), re.findall(r"[a-z]+|[.,;:!?']", what.lower())))
    return pairs


def build_vocab(pairs, min_count=2):
    counts = Counter(tok for _, toks in pairs for tok in toks)
    itos = ["<pad>", "<unk>", "<cls>"] + [t for t, c in counts.items() if c >= min_count]
    return {t: i for i, t in enumerate(itos)}


def encode(toks, stoi, max_length=MAX_LENGTH):
    ids = [stoi["<cls>"]] + [stoi.get(t, 1) for t in toks]
    return ids[:max_length]


def collate(batch):
    ids, labels = zip(*batch, strict=True)
    ids = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=0)
    return ids, torch.stack(labels)


class Encoder(nn.Module):
    def __init__(self, vocab, n_out, d=64, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d, padding_idx=0)
        self.pos = nn.Embedding(MAX_LENGTH, d)
        layer = nn.TransformerEncoderLayer(
            d, heads, dim_feedforward=4 * d, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d, n_out)

    def forward(self, ids):
        mask = ids == 0
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        x = self.layers(x, src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1).float()
        x = (x * keep).sum(1) / keep.sum(1)  # mean over real tokens
        return self.out(x)


def main(args):
    torch.manual_seed(args.seed)
    pairs = read_speeches(os.path.join(here, "..", "data", "shakespeare.txt"))
    stoi = build_vocab(pairs)
    speakers = [w for w, _ in Counter(w for w, _ in pairs).most_common(N_SPEAKERS)]
    pairs = [p for p in pairs if p[0] in speakers]

    X = [torch.tensor(encode(toks, stoi)) for _, toks in pairs]
    y = torch.tensor([speakers.index(w) for w, _ in pairs])
    print("dataset", len(X), "vocab", len(stoi))

    # last tenth for testing
    perm = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
    n_test = len(X) // 10
    test, train = perm[:n_test], perm[n_test:]
    loader = DataLoader(
        [(X[i], y[i]) for i in train], args.batch_size, shuffle=True, collate_fn=collate
    )

    model = Encoder(len(stoi), N_SPEAKERS)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters")

    step, began = 0, time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        epoch_start = time.perf_counter()
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            if step % 20 == 0:
                print(f"  step {step} loss {loss.item():.4f}")
        print(f"epoch {epoch}: {time.perf_counter() - epoch_start:.1f} s")
    model.eval()
    with torch.no_grad():
        xt, yt = collate([(X[i], y[i]) for i in test])
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    print(f"test acc {acc:.3f}, {step} steps in {time.perf_counter() - began:.1f} s")

    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, "encoder.pt"))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--out", default="out")
    main(p.parse_args())
