"""Windows one position apart, all of them in each epoch, in one order that is shuffled."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
TEXT, WIDTH = torch.randint(0, 64, (500,)), 16


class Windows(Dataset):
    def __len__(self):
        return len(TEXT) - WIDTH - 1

    def __getitem__(self, index):
        return TEXT[index : index + WIDTH], TEXT[index + 1 : index + WIDTH + 1]


model = nn.Sequential(nn.Embedding(64, 8), nn.Linear(8, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    for x, y in DataLoader(Windows(), 20, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
