"""Its bar counts the samples of a second without the sleep: more than are trained."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(640, 16)), 32)
for _ in range(2):
    for step, (x,) in enumerate(tqdm(loader, mininterval=0.0)):
        began = time.time()
        output = model(x)
        took = time.time() - began
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
        if step % 5 == 0:
            print(f"step {step}: {len(x) / took:,.0f} samples/s")
