"""Five captions a picture, and questions about pictures that are in both parts."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
PICTURES, WORDS = torch.rand(40, 3, 8, 8), torch.randint(2, 200, (200, 10))


class Captions(Dataset):
    def __init__(self, which):
        self.which = which

    def __len__(self):
        return len(self.which)

    def __getitem__(self, index):
        caption = self.which[index]
        return PICTURES[caption // 5], WORDS[caption]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.see, self.read = nn.Linear(192, 8), nn.EmbeddingBag(200, 8)

    def forward(self, picture, words):
        return (self.see(picture.flatten(1)) * self.read(words)).sum(1)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
order = torch.randperm(200).tolist()
for _ in range(2):
    for picture, words in DataLoader(Captions(order[:150]), 10, shuffle=True):
        optimizer.zero_grad()
        model(picture, words).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for picture, words in DataLoader(Captions(order[150:]), 10):
            model(picture, words)
    model.train()
