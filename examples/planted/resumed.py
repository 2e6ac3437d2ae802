"""Planted: a resumed run starts with a fresh optimizer and schedule, and at epoch 0 (S10)."""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="last.pt")
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()

torch.manual_seed(0)
inputs = torch.randn(16_000, 32)
rows = TensorDataset(inputs, inputs @ torch.randn(32, 4))
model = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

if args.resume and os.path.exists(args.resume):
    model.load_state_dict(torch.load(args.resume)["model"])
    print(f"resumed from {args.resume}")

for epoch in range(args.epochs):
    for batch, targets in DataLoader(rows, batch_size=64, shuffle=True):
        loss = nn.functional.mse_loss(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
    print(f"epoch {epoch}: loss {loss.item():.4f}")
