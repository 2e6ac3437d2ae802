"""Character-level transformer in the manner of nanoGPT: hand-made batches, one file."""

import math
import os
import sys
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

out = "out"
max_iters = 220
eval_interval = 110
eval_batches = 4
log_interval = 20
batch_size = 12
block_size = 64
n_layer, n_head, n_embd = 3, 4, 96
learning_rate, min_lr, warmup = 2e-3, 1e-4, 20
grad_clip = 1.0
if __name__ == "__main__" and "--out" in sys.argv:
    out = sys.argv[sys.argv.index("--out") + 1]

torch.manual_seed(1337)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "slow", "data")
with open(os.path.join(path, "shakespeare.txt")) as f:
    text = f.read()
chars = sorted(set(text))
encode = {c: i for i, c in enumerate(chars)}
data = torch.tensor([encode[c] for c in text], dtype=torch.long)
n = int(0.9 * len(data))
splits = {"train": data[:n], "val": data[n:]}
offsets = torch.arange(block_size)


def get_batch(split):
    source = splits[split]
    start = torch.randint(len(source) - block_size, (batch_size, 1))
    return source[start + offsets], source[start + offsets + 1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.up, self.down = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, n_head, c // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(len(chars), n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*(Block() for _ in range(n_layer)))
        self.norm = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, len(chars), bias=False)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear | nn.Embedding):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = torch.stack([model(*get_batch("val")) for _ in range(eval_batches)])
    model.train()
    return losses.mean().item()


def lr_lambda(it):
    if it < warmup:
        return (it + 1) / warmup
    part = (it - warmup) / (max_iters - warmup)
    low = min_lr / learning_rate
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * part))


model = GPT()
decay = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
    lr=learning_rate,
    betas=(0.9, 0.95),
    fused=True,
)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")

t0 = time.time()
for it in range(1, max_iters + 1):
    loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    scheduler.step()
    if it % log_interval == 0:
        print(f"iter {it}: loss {loss.item():.4f}, {(time.time() - t0) / it * 1e3:.0f} ms/iter")
    if it % eval_interval == 0:
        print(f"iter {it}: val loss {estimate_loss(model):.4f}")

os.makedirs(out, exist_ok=True)
state = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "scheduler": scheduler.state_dict(),
    "iter": max_iters,
}
torch.save(state, os.path.join(out, "ckpt.pt"))
