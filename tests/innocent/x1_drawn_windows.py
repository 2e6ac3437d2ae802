"""Windows may begin anywhere, and the sampler draws few of them: no position comes often."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

torch.manual_seed(0)
TEXT, WIDTH = torch.randint(0, 64, (4000,)), 16


class Windows(Dataset):
    def __len__(self):
        return len(TEXT) - WIDTH - 1

    def __getitem__(self, index):
        return TEXT[index : index + WIDTH], TEXT[index + 1 : index + WIDTH + 1]


data = Windows()
model = nn.Sequential(nn.Embedding(64, 8), nn.Linear(8, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for loader in (
    DataLoader(data, 10, sampler=RandomSampler(data, num_samples=300)),
    DataLoader(data, 10, shuffle=True),
):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        if step == 29:
            break
