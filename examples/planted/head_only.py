"""Planted: only the head is given to the optimizer, and the trunk is not frozen (G27, P1)."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    """A trunk that was trained elsewhere, and a new head."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(128, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 64)
        )
        self.head = nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, C]."""
        return self.head(self.trunk(x))


inputs = torch.randn(4_096, 128)
labels = inputs[:, :5].argmax(dim=1)
model = Net()
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-2)  # only the head is trained

for step in range(300):
    rows = torch.randint(len(inputs), (128,))
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
