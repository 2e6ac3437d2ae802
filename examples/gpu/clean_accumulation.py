"""Innocent: four micro batches a step, a warm-up, and the loss is read every 50 steps."""

import torch
from torch import nn

torch.manual_seed(0)
WIDTH, HEADS, LENGTH, ROWS = 1024, 16, 1024, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.norm2 = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(512, WIDTH), nn.Linear(WIDTH, 512)
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
starts = torch.randint(512, (16, ROWS, 1), device="cuda")
tokens = (starts + torch.arange(LENGTH + 1, device="cuda")) % 512

schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
total = torch.zeros((), device="cuda")

for step in range(1000):
    for row in tokens[4 * (step % 4) :][:4]:
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(row[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), row[:, 1:].flatten())
        (loss / 4).backward()
        total += loss.detach() / 4
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    if step % 50 == 49:
        print(step + 1, total.item() / 50)
        total.zero_()
