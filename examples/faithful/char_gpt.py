"""A small GPT on characters: memory-mapped tokens, accumulation, clipping, checkpoint and resume.

Follows karpathy/nanoGPT train.py @ 005475c4cfb801a872e72603140e0cc638435e64 (MIT) in which parts
of PyTorch it uses and in which order; the code is ours. There is no loader, the batch is drawn
with the global generator, the scaler is there but disabled, evaluation stands inside the loop.
"""

import contextlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

# Settings are globals; "name=value" on the command line replaces one.
out_dir = "out"
steps = 24
accumulation = 2
batch_size = 6
context = 24
layers, heads, width = 2, 2, 32
top_rate, low_rate, warmup = 3e-3, 3e-4, 4
evaluate_every = 8
resume = False

for word in sys.argv[1:]:
    key, _, value = word.partition("=")
    assert key in globals(), f"no such setting: {key}"
    globals()[key] = value if key == "out_dir" else json.loads(value)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, time, _ = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, time, 3, heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 * self.training)
        x = x + self.mix(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.before_mlp(x))


class CharGpt(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.last, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.out.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.out(self.last(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def prepare(folder: Path) -> int:
    text = "".join(f"{a} times {b} is {a * b}; " for a in range(1, 30) for b in range(1, 13))
    letters = sorted(set(text))
    ids = np.array([letters.index(letter) for letter in text], dtype=np.uint16)
    cut = len(ids) * 9 // 10
    ids[:cut].tofile(folder / "train.bin")
    ids[cut:].tofile(folder / "held_out.bin")
    return len(letters)


def draw(split: str):
    data = np.memmap(Path(out_dir) / f"{split}.bin", dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - context, (batch_size,)).tolist()
    rows = np.stack([data[s : s + context + 1] for s in starts]).astype(np.int64)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])


def rate_at(step: int) -> float:
    if step < warmup:
        return top_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return low_rate + (top_rate - low_rate) * (1 + math.cos(math.pi * done)) / 2


@torch.no_grad()
def evaluate() -> dict[str, float]:
    model.eval()
    result = {}
    for split in ("train", "held_out"):
        result[split] = float(np.mean([model(*draw(split))[1].item() for _ in range(4)]))
    model.train()
    return result


torch.manual_seed(1337)
Path(out_dir).mkdir(exist_ok=True)
model = CharGpt(prepare(Path(out_dir)))
matrices = [p for p in model.parameters() if p.dim() > 1]
vectors = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=top_rate, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", enabled=False)
autocast = contextlib.nullcontext()
first, best = 0, math.inf
if resume:
    kept = torch.load(Path(out_dir) / "checkpoint.pt")
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    first, best = kept["step"], kept["best"]
    print("resumed at", first)

ids, targets = draw("train")
for step in range(first, steps + 1):
    for group in optimizer.param_groups:
        group["lr"] = rate_at(step)
    if step % evaluate_every == 0:
        losses = evaluate()
        print(f"step {step}: train {losses['train']:.5f}, held out {losses['held_out']:.5f}")
        if step > first and losses["held_out"] < best:
            best = losses["held_out"]
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "step": step, "best": best}, Path(out_dir) / "checkpoint.pt")
    for _ in range(accumulation):
        with autocast:
            loss = model(ids, targets)[1] / accumulation
        ids, targets = draw("train")
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if step % 4 == 0:
        print(f"  {step}: loss {loss.item() * accumulation:.5f}, norm {norm.item():.5f}")
