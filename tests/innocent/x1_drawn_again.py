"""Samplers that are meant to draw rows again: with weights, with replacement, without end."""

import itertools

import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
)

torch.manual_seed(0)
data = TensorDataset(torch.randn(100, 16))


class Endless(Sampler):
    def __iter__(self):
        while True:
            yield from torch.randperm(100).tolist()


class Shuffled(RandomSampler):
    def __iter__(self):
        while True:
            yield from super().__iter__()


class Stream(IterableDataset):
    def __iter__(self):
        while True:
            yield from data


model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
weights = torch.arange(100).float()
for loader in (
    DataLoader(data, 10, sampler=WeightedRandomSampler(weights, 300)),
    DataLoader(data, 10, sampler=RandomSampler(data, replacement=True)),
    DataLoader(data, 10, sampler=RandomSampler(data, num_samples=400)),
    DataLoader(data, 10, sampler=Endless()),
    DataLoader(data, 10, sampler=Shuffled(data)),
    DataLoader(Stream(), 10),
    itertools.cycle(DataLoader(data, 10, shuffle=True)),
):
    for (x,) in itertools.islice(loader, 30):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
