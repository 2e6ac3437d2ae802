"""Planted: the weights are bfloat16, and the learning rate is that of a fine-tuning (P4)."""

import torch
from torch import nn

torch.manual_seed(0)
tokens = torch.randint(256, (64, 33))
model = nn.Sequential(
    nn.Embedding(256, 64),
    nn.Linear(64, 256),
    nn.GELU(),
    nn.Linear(256, 256),
).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

for step in range(200):
    rows = tokens[torch.randint(len(tokens), (8,))]
    logits = model(rows[:, :-1]).float()
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
