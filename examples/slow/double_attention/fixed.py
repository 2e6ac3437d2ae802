"""Find the lag of an echo in a long noisy signal with a small attention model."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn


def batch_of_signals(n, length, generator):
    """White noise plus its own echo after 8, 16, 32 or 64 samples."""
    lags = torch.tensor([8, 16, 32, 64])
    label = torch.randint(4, (n,), generator=generator)
    s = torch.randn(n, length + 64, generator=generator)
    index = torch.arange(64, length + 64)[None] - lags[label][:, None]
    x = s[:, 64:] + 0.9 * s.gather(1, index)
    return x, label


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def attend(self, x):
        h = self.norm(x)
        return self.mha(h, h, h, need_weights=False)[0]

    def forward(self, x):
        return x + self.attend(x)


class EchoNet(nn.Module):
    def __init__(self, length, dim=32, heads=8):
        super().__init__()
        self.inp = nn.Conv1d(1, dim, 9, padding=4)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.5)
        self.attn1 = SelfAttention(dim, heads)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.attn2 = SelfAttention(dim, heads)
        self.mix = nn.Conv1d(1, 48, 129, padding=64)
        self.head = nn.Linear(dim + 48, 4)

    def forward(self, x):
        h = self.inp(x[:, None]).transpose(1, 2) + self.pos
        h = self.attn1(h)
        h = h + self.conv(h.transpose(1, 2)).transpose(1, 2)
        h = self.attn2(h)
        energy = self.mix(x[:, None]).square().mean(2).log1p()
        return self.head(torch.cat([h.mean(1), energy], dim=1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--batch", type=int, default=3)
    ap.add_argument("--length", type=int, default=384)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--out", type=Path, default=Path("out"))
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = EchoNet(args.length)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    print(model)

    t0 = time.time()
    seen, hits, losses = 0, 0, []
    for step in range(1, args.steps + 1):
        x, y = batch_of_signals(args.batch, args.length, gen)
        logits = model(x)
        loss = criterion(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        losses.append(loss.item())
        hits += (logits.argmax(1) == y).sum().item()
        seen += len(y)
        if step % 25 == 0:
            mean = sum(losses) / len(losses)
            print(f"step {step:4d} loss {mean:.4f} acc {hits / seen:.3f} [{time.time() - t0:.1f}s]")
            seen, hits, losses = 0, 0, []

    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(
        {"model": model.state_dict(), "args": vars(args) | {"out": None}}, args.out / "echo.pt"
    )


if __name__ == "__main__":
    main()
