"""Planted for a GPU: a vocabulary of 50,257 as GPT-2 has it, in bfloat16."""

import torch
from torch import nn

torch.manual_seed(0)
WIDTH, HEADS, LENGTH, ROWS, WORDS = 1024, 16, 1024, 8, 50_257  # FAULT: G4


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
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)  # FAULT: G28
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
starts = torch.randint(WORDS, (16, ROWS, 1), device="cuda")
tokens = (starts + torch.arange(LENGTH + 1, device="cuda")) % WORDS

for _ in range(200):
    for row in tokens:
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(row[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), row[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
