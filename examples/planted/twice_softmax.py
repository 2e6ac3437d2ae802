"""A classifier that returns probabilities, and a loss that expects logits."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.layers(x).softmax(dim=-1)


torch.manual_seed(0)
x = torch.randn(4096, 32)
y = x[:, :10].argmax(1)
model, criterion = Classifier(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(600):
    chosen = torch.randint(len(x), (64,))
    loss = criterion(model(x[chosen]), y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
