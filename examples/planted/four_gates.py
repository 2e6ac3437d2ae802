"""A recurrent cell with a layer for each gate runs in a loop over time."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, size=8, width=32):
        super().__init__()
        self.width = width
        self.enter, self.keep, self.show, self.new = (
            nn.Linear(size + width, width) for _ in range(4)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        state = memory = x.new_zeros(len(x), self.width)
        outputs = []
        for moment in x.unbind(1):
            both = torch.cat([state, moment], 1)
            fresh = torch.sigmoid(self.enter(both)) * torch.tanh(self.new(both))
            memory = torch.sigmoid(self.keep(both)) * memory + fresh
            state = torch.sigmoid(self.show(both)) * torch.tanh(memory)
            outputs.append(state)
        return self.head(torch.stack(outputs, 1))


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(512, 40, 8)
y = (x[..., 0].cumsum(1) > 0).long() + (x[..., 1] > 1).long()
for step in range(500):
    chosen = torch.randint(512, (32,))
    loss = nn.functional.cross_entropy(model(x[chosen]).flatten(0, 1), y[chosen].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
