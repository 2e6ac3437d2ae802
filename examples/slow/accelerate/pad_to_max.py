"""Character transformer that predicts the next character of a line, with Accelerate."""

import argparse
import pathlib
import time

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

PAD = 0
MAX_LEN = 192


def tokenize(line, stoi):
    ids = [stoi[c] for c in line] + [stoi["\n"]]
    return torch.tensor(ids[:MAX_LEN])


def collate(lines):
    batch = torch.full((len(lines), MAX_LEN), PAD)
    for i, ids in enumerate(lines):
        batch[i, : len(ids)] = ids
    return batch


class LineModel(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True)
        self.trunk = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        t = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        x = self.tok(ids) + self.pos[:t]
        return self.head(self.trunk(x, mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=pathlib.Path, default="out")
    args = parser.parse_args()

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
    torch.manual_seed(0)
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt"
    text = path.read_text()
    stoi = {c: i + 1 for i, c in enumerate(sorted(set(text)))}
    lines = [tokenize(line, stoi) for line in text.splitlines() if line.strip()]
    longest = max(len(line) for line in lines)
    accelerator.print(f"{len(lines)} lines, the longest has {longest} characters")

    loader = DataLoader(lines, args.batch, shuffle=True, collate_fn=collate, drop_last=True)
    model = LineModel(len(stoi) + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    began = time.time()
    model.train()
    for step, ids in enumerate(loader, start=1):
        with accelerator.accumulate(model):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], ignore_index=PAD)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if step % 20 == 0:
            speed = step / (time.time() - began)
            accelerator.print(f"step {step}/{args.steps} loss {loss.item():.3f} {speed:.1f} it/s")
        if step == args.steps:
            break

    accelerator.print(f"done in {time.time() - began:.1f}s")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(accelerator.unwrap_model(model).state_dict(), args.out / "lines.pt")


if __name__ == "__main__":
    main()
