"""Planted: gradients are clipped while they are scaled, in bfloat16 that needs no scaler (S6)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
inputs = torch.randn(8192, 64)
targets = inputs[:, :4].prod(1, keepdim=True)

for step in range(600):
    chosen = torch.randint(len(inputs), (128,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(inputs[chosen]).float(), targets[chosen])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
