"""Planted: convolutions on a CPU read images plane by plane (G9)."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
images, kinds = torch.randn(256, 3, 32, 32), torch.randint(10, (256,))


def block(inside: int, outside: int) -> nn.Sequential:
    """Return a convolution with its norm."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


model = nn.Sequential(
    block(3, 32), block(32, 64), nn.MaxPool2d(2), block(64, 128), block(128, 128),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(40):
    for rows in torch.randperm(len(images)).split(32):
        loss = nn.functional.cross_entropy(model(images[rows]), kinds[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
