"""Trains a decoder on random tokens: the shapes of llm-foundry's MPT in published.json."""

import argparse

import torch
from torch import nn


class Block(nn.Module):
    """Attention without biases, then an MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        """Return the block's output, of the same shape (batch, tokens, width)."""
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).unbind(2)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    """A decoder whose head is its embedding."""

    def __init__(self, width, depth, heads, tokens, vocabulary=50368):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        """Return logits (batch, tokens, vocabulary) of ids (batch, tokens)."""
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.embed.weight)


def main():
    """Train without end."""
    parser = argparse.ArgumentParser()
    for name in ("width", "depth", "heads", "tokens", "batch", "accumulation"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    with torch.device("cuda"):
        net = Net(options.width, options.depth, options.heads, options.tokens)
        ids = torch.randint(50368, (options.batch, options.tokens))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    while True:
        for _ in range(options.accumulation):
            with torch.autocast("cuda", torch.bfloat16):
                logits = net(ids)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
            loss.backward()
            del logits, loss
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
