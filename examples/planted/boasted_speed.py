"""Planted: the speed that is printed leaves out the backward pass and the update (A1)."""

import time

import torch
from torch import nn

torch.manual_seed(0)
batch_size, block_size = 16, 64
text = torch.randint(256, (100_000,))
model = nn.Sequential(
    nn.Embedding(256, 128),
    nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True),
    nn.Linear(128, 256),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(80):
    starts = torch.randint(len(text) - block_size - 1, (batch_size,)).tolist()
    inputs = torch.stack([text[i : i + block_size] for i in starts])
    targets = torch.stack([text[i + 1 : i + 1 + block_size] for i in starts])
    began = time.time()
    logits = model(inputs)
    took = time.time() - began
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        speed = inputs.numel() / took
        print(f"step {step}: loss {loss.item():.3f}, {speed:,.0f} tokens/s")
