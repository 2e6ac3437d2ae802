"""Batches of four rows of each of four classes for a triplet loss, and steps of two kinds in turn.

Both are in the same order in each epoch: rows of a class are to be compared, and a discriminator
learns from real rows and made ones by turns.
"""

import time

import torch
from torch import nn

torch.manual_seed(0)
kinds = torch.arange(40).repeat_interleave(16)
x = torch.randn(40, 8)[kinds] + torch.randn(640, 8)
order = torch.randperm(40).repeat(4).view(-1, 4)
batches = [torch.cat([torch.where(kinds == kind)[0][:4] for kind in four]) for four in order]
model = nn.Linear(8, 40)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(8):
    for rows in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), kinds[rows]).backward()
        optimizer.step()
        time.sleep(0.002)

judge = nn.Linear(8, 1)
optimizer = torch.optim.SGD(judge.parameters(), 0.01)
for _ in range(4):
    for first in range(0, 640, 16):
        real, made = x[first : first + 16], torch.randn(16, 8)
        for rows, label in ((real, torch.ones(16, 1)), (made, torch.zeros(16, 1))):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(judge(rows), label).backward()
            optimizer.step()
            time.sleep(0.002)
