"""Planted: attention written out; it is called bidirectional and is still causal (G5, P6)."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    """Attention over a whole sentence, or over what came before."""

    def __init__(self, width: int, heads: int, bidirectional: bool = False) -> None:
        super().__init__()
        self.heads, self.bidirectional = heads, bidirectional
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, T, C]."""
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(rows, length, width))


class Filler(nn.Module):
    """Fills the gaps of a sentence."""

    def __init__(self, vocabulary: int = 100, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, heads=4, bidirectional=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens: [B, T]."""
        x = self.embed(tokens)
        return self.head(x + self.attention(x))


torch.manual_seed(0)
GAP = 0
sentences = torch.randint(1, 100, (256, 256))
model = Filler()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(150):
    rows = sentences[torch.randint(len(sentences), (8,))]
    gaps = torch.rand(rows.shape) < 0.15
    loss = nn.functional.cross_entropy(model(rows.masked_fill(gaps, GAP))[gaps], rows[gaps])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
