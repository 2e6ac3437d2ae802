"""Planted for a GPU: batches of many sizes, and so little memory that the allocator starts anew."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8)]
model = nn.Sequential(*layers, nn.Linear(2048, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 8192, 2048, device="cuda")
labels = inputs[..., :128].argmax(-1)

free, _ = torch.cuda.mem_get_info()
table = torch.empty(free - (2 << 30), dtype=torch.uint8, device="cuda")
sizes = torch.randint(1024, 8192, (64,)).tolist()

for _ in range(500):
    for rows in sizes:
        x, y = inputs[0, :rows], labels[0, :rows]
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)  # FAULT ANYWHERE: G15
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
