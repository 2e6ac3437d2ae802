"""Each head of attention is a module of its own, called in a list comprehension."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
WIDTH, HEADS, LENGTH = 64, 8, 32


class Head(nn.Module):
    """One head of attention."""

    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.query, self.key, self.value = (nn.Linear(WIDTH, size, bias=False) for _ in range(3))
        self.register_buffer("later", torch.ones(LENGTH, LENGTH).triu(1).bool())

    def forward(self, x):
        """Attend to what came before."""
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * (WIDTH // HEADS) ** -0.5
        return scores.masked_fill(self.later, float("-inf")).softmax(-1) @ self.value(x)


class Block(nn.Module):
    """Several heads and a layer."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([Head() for _ in range(HEADS)])
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        """Add what the heads saw."""
        return x + self.out(torch.cat([head(x) for head in self.heads], dim=-1))


model = nn.Sequential(nn.Embedding(50, WIDTH), Block(), Block(), nn.Linear(WIDTH, 50))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
tokens = torch.randint(50, (512, LENGTH + 1))
for step in range(1500):
    batch = tokens[torch.randint(512, (16,))]
    loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
