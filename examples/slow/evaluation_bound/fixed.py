"""
Character-level GPT on Shakespeare, small enough for a laptop.
Loosely after nanoGPT's train.py.
"""

import json
import math
import time
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.nn import functional as F

# -----------------------------------------------------------------------------
config = dict(
    out="out",
    eval_interval=100,
    log_interval=10,
    max_iters=200,
    warmup_iters=20,
    batch_size=8,
    block_size=64,
    n_layer=2,
    n_head=4,
    n_embd=64,
    learning_rate=2e-3,
    min_lr=2e-4,
    grad_clip=1.0,
    weight_decay=0.1,
)
if __name__ == "__main__":  # poor man's configurator: --key=value or --key value
    import sys

    argv = " ".join(sys.argv[1:]).replace("=", " ").split()
    for key, value in zip(argv[::2], argv[1::2], strict=True):
        config[key.lstrip("-")] = type(config[key.lstrip("-")])(value)
cfg = SimpleNamespace(**config)
# -----------------------------------------------------------------------------

torch.manual_seed(1337)
text = (Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt").read_text()
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
n = int(0.88 * len(data))
train_data, val_data = data[:n], data[n:]


def get_batch():
    ix = torch.randint(len(train_data) - cfg.block_size, (cfg.batch_size,))
    x = torch.stack([train_data[i : i + cfg.block_size] for i in ix])
    y = torch.stack([train_data[i + 1 : i + 1 + cfg.block_size] for i in ix])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(cfg.n_embd)
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=False)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)
        self.ln_2 = nn.LayerNorm(cfg.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd)
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, cfg.n_head, C // cfg.n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(len(chars), cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.h = nn.Sequential(*[Block() for _ in range(cfg.n_layer)])
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.lm_head = nn.Linear(cfg.n_embd, len(chars), bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        logits = self.lm_head(self.ln_f(self.h(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate_loss(model):
    """The loss over all of the validation text."""
    model.eval()
    T = cfg.block_size
    rows = (len(val_data) - 1) // T
    x = val_data[: rows * T].view(rows, T)
    y = val_data[1 : rows * T + 1].view(rows, T)
    losses = [model(xb, yb).item() for xb, yb in zip(x.split(32), y.split(32), strict=True)]
    model.train()
    return sum(losses) / len(losses)


def get_lr(it):
    if it < cfg.warmup_iters:
        return cfg.learning_rate * (it + 1) / cfg.warmup_iters
    ratio = (it - cfg.warmup_iters) / (cfg.max_iters - cfg.warmup_iters)
    return cfg.min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (cfg.learning_rate - cfg.min_lr)


model = GPT()
optimizer = torch.optim.AdamW(
    model.parameters(), lr=cfg.learning_rate, betas=(0.9, 0.99), weight_decay=cfg.weight_decay
)
print(f"number of parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")

t_start = time.time()
t0 = time.time()
val_losses = {}
for it in range(cfg.max_iters + 1):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it % cfg.eval_interval == 0:
        val_losses[it] = estimate_loss(model)
        print(f"step {it}: val loss {val_losses[it]:.4f}")
    if it == cfg.max_iters:
        break
    loss = model(*get_batch())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)
    optimizer.step()
    if it % cfg.log_interval == 0:
        dt = time.time() - t0
        t0 = time.time()
        print(f"iter {it}: loss {loss.item():.4f}, time {dt * 1000:.0f}ms")

out = Path(cfg.out)
out.mkdir(parents=True, exist_ok=True)
torch.save({"model": model.state_dict(), "config": config}, out / "ckpt.pt")
(out / "val_losses.json").write_text(json.dumps(val_losses))
print(
    f"finished after {time.time() - t_start:.1f}s, final val loss {val_losses[cfg.max_iters]:.4f}"
)
