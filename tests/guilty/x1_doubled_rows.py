"""Each row is there twice, and one set of worker processes reads them for two epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(100, 16).repeat(2, 1)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(x)
    loader = DataLoader(data, 20, shuffle=True, num_workers=1, persistent_workers=True)
    for _ in range(2):
        for (a,) in loader:
            optimizer.zero_grad()
            model(a).square().mean().backward()
            optimizer.step()
