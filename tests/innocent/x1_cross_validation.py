"""Each fold trains a new model on what the others held out."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 16)
data = TensorDataset(x, (x.sum(1) > 0).long())
order = torch.randperm(300).tolist()


def folds():
    for fold in range(3):
        held_out = order[100 * fold : 100 * (fold + 1)]
        rest = [index for index in order if index not in held_out]
        yield DataLoader(Subset(data, rest), 20, shuffle=True), DataLoader(Subset(data, held_out))
        yield (
            DataLoader(data, 20, sampler=SubsetRandomSampler(rest)),
            DataLoader(data, 20, sampler=SubsetRandomSampler(held_out)),
        )


for train, held_out in folds():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for a, b in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = [(model(a).argmax(1) == b).float().mean().item() for a, b in held_out]
    print(sum(right) / len(right))
