"""Three epochs, a schedule of three steps, all of it gone when the function returns."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    for _ in range(3):
        for (x,) in DataLoader(TensorDataset(torch.randn(160, 16)), 8):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        schedule.step()


def once():
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for (x,) in DataLoader(TensorDataset(torch.randn(160, 16)), 8):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    schedule.step()


main()
once()
