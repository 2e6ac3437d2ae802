"""A layer of a graph network that multiplies both ends of each edge, 16 times as many as nodes."""

import torch
from torch import nn

torch.manual_seed(0)
NODES, EDGES, WIDTH = 500, 8000, 128
source, target = torch.randint(0, NODES, (2, EDGES))
x, y = torch.randn(NODES, 32), torch.randn(NODES, 1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, h):
        ends = torch.cat([h[source], h[target]], dim=-1)
        messages = self.message(ends).relu()
        return torch.zeros_like(h).index_add(0, target, messages)


first, layer, last = nn.Linear(32, WIDTH), Layer(), nn.Linear(WIDTH, 1)
optimizer = torch.optim.Adam([*first.parameters(), *layer.parameters(), *last.parameters()])
for step in range(150):
    loss = (last(layer(first(x).relu())) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, round(loss.item(), 3))
