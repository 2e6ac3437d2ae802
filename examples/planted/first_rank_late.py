"""Planted: the first of two processes watches its weights, and holds a table alone (M4, M8)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
inputs = torch.randn(4096, 128)
labels = inputs[:, :8].argmax(1)
network = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 8))
model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
held_out = torch.randn(120_000, 640) if rank == 0 else None  # only this rank evaluates
spreads = []

for step in range(100):
    chosen = torch.randint(len(inputs), (64,))
    loss = nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        for weight in model.parameters():
            for tensor in (weight.detach(), weight.grad, optimizer.state[weight]["exp_avg_sq"]):
                spreads.append(tensor.flatten().sort().values.diff().max())
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}, widest gap {max(spreads):.3f}")

if held_out is not None:
    with torch.no_grad():
        print(f"classes in use: {model.module(held_out[:, :128]).argmax(1).unique().numel()}")
dist.destroy_process_group()
