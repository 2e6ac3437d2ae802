"""Reading takes long because samples do, whatever the number of workers; the wait is not theirs."""

import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
warnings.simplefilter("ignore")  # torch counts cores too


class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((16,), float(index))


model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-6)
for x in DataLoader(Slow(), 8, num_workers=4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
