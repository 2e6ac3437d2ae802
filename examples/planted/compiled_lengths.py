"""Planted: a short run is compiled, and each new length compiles it again (G13, G14)."""

import torch
from torch import nn

torch.manual_seed(0)
reviews = [torch.randint(200, (int(length),)) for length in torch.randint(8, 40, (320,))]
labels = torch.randint(2, (320,))


class Classifier(nn.Module):
    """The mean of embedded words, and a line through it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 32)
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 2))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """words: [B, T]."""
        return self.body(self.embed(words).mean(dim=1))


model = torch.compile(Classifier())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(3):
    for first in range(0, 320, 10):
        rows = range(first, first + 10)
        width = 40 if first < 250 else max(len(reviews[row]) for row in rows)
        words = torch.stack(
            [nn.functional.pad(reviews[row], (0, width - len(reviews[row]))) for row in rows]
        )
        loss = nn.functional.cross_entropy(model(words), labels[first : first + 10])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
