"""Planted for a GPU: the host reads three figures of each step before the next one."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8)]
model = nn.Sequential(*layers, nn.Linear(2048, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 8192, 2048, device="cuda")
labels = inputs[..., :128].argmax(-1)

losses, hits, norms = [], [], []

for _ in range(2000):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())  # FAULT: H2
        hits.append((logits.argmax(-1) == y).float().mean().item())  # FAULT: H2
        norms.append(norm.item())  # FAULT: H2
