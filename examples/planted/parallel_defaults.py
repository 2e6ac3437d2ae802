"""Planted: DistributedDataParallel with what costs time and repeats data (M3, M5, M6, M7, M9)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
inputs = torch.randn(2560, 512)
rows = TensorDataset(inputs, inputs[:, :16].argmax(1))
sampler = DistributedSampler(rows, shuffle=True)
loader = DataLoader(rows, batch_size=16, sampler=sampler)
network = nn.Sequential(nn.Linear(512, 1536), nn.ReLU(), nn.Linear(1536, 16))
model = DistributedDataParallel(network, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
accumulation = 4

for epoch in range(2):
    for step, (batch, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(batch), labels)
        (loss / accumulation).backward()
        if (step + 1) % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
    if rank == 0:
        print(f"epoch {epoch}: loss {loss.item():.3f}")
dist.destroy_process_group()
