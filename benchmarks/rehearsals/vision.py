"""Trains a ViT or an MLP-Mixer on random pictures: the shapes of the figures in published.json.

In 2022 timm wrote attention out: scores, softmax and product are kernels of their own.
"""

import argparse

import torch
from torch import nn


class Attention(nn.Module):
    """Written attention of one block."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        """Return the mixed tokens, of the same shape (batch, tokens, width)."""
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


def mlp(width, inner):
    """Return two layers with GELU between them."""
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Across(nn.Module):
    """A Mixer's MLP across tokens."""

    def __init__(self, tokens, inner):
        super().__init__()
        self.mlp = mlp(tokens, inner)

    def forward(self, x):
        """Return the mixed tokens, of the same shape."""
        return self.mlp(x.transpose(1, 2)).transpose(1, 2)


class Block(nn.Module):
    """Mixes tokens, then channels."""

    def __init__(self, width, mix):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(width), mix
        self.norm2, self.mlp = nn.LayerNorm(width), mlp(width, 4 * width)

    def forward(self, x):
        """Return the block's output, of the same shape."""
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    """A ViT, or with heads=0 a Mixer. Patches are cut by a view and a product, as a card does."""

    def __init__(self, width, depth, heads, patch, size):
        super().__init__()
        self.patch, tokens = patch, (size // patch) ** 2
        self.embed = nn.Linear(3 * patch * patch, width)
        self.first = nn.Parameter(torch.zeros(1, 1, width)) if heads else None
        tokens += bool(heads)
        self.position = nn.Parameter(torch.zeros(1, tokens, width)) if heads else None

        def mix():
            return Attention(width, heads) if heads else Across(tokens, width // 2)

        self.blocks = nn.Sequential(*(Block(width, mix()) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        """Return logits (batch, 1000) of pictures (batch, 3, size, size)."""
        x = x.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        x = self.embed(x.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2))
        if self.first is None:
            return self.head(self.norm(self.blocks(x)).mean(1))
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    """Train without end."""
    parser = argparse.ArgumentParser()
    for name in ("width", "depth", "heads", "patch", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    with torch.device("cuda"):
        net = Net(options.width, options.depth, options.heads, options.patch, 224)
        x = torch.randn(options.batch, 3, 224, 224)
        y = torch.randint(1000, (options.batch,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    while True:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
