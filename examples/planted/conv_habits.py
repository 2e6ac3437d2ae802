"""Planted: biases that batch norm removes, gradients filled with zeros (G11, G8)."""

import torch
from torch import nn

torch.manual_seed(0)


def block(channels_in: int, channels: int) -> nn.Sequential:
    """Return a convolution, its norm and its activation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


pictures, labels = torch.rand(512, 1, 16, 16), torch.randint(10, (512,))
model = nn.Sequential(
    block(1, 8),
    block(8, 16),
    nn.Flatten(),
    nn.Linear(16 * 16, 2048),
    nn.ReLU(),
    nn.Linear(2048, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for step in range(800):
    rows = torch.randint(len(pictures), (8,))
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(pictures[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
