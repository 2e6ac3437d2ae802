"""Planted: adapters that start at zero are drawn at random, and nothing is frozen (P1, P5)."""

import torch
from torch import nn

torch.manual_seed(0)


class LoRALinear(nn.Module):
    """A layer, and a small one beside it that starts without effect."""

    def __init__(self, width_in: int, width: int, rank: int = 4) -> None:
        super().__init__()
        self.base = nn.Linear(width_in, width)
        self.down = nn.Linear(width_in, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, C]."""
        return self.base(x) + self.up(self.down(x))


class Net(nn.Module):
    """Two adapted layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = LoRALinear(64, 256)
        self.second = LoRALinear(256, 10)
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, C]."""
        return self.second(torch.relu(self.first(x)))


inputs, labels = torch.randn(2_048, 64), torch.randint(10, (2_048,))
model = Net()
for name, parameter in model.named_parameters():
    parameter.require_grad = "up" in name or "down" in name
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(300):
    rows = torch.randint(len(inputs), (64,))
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
