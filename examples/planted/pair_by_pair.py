"""The scores of all pairs of a batch are written one by one, in a loop over both."""

import torch
from torch import nn

torch.manual_seed(0)
ROWS, PLACES, SIZE = 8, 12, 32
encoder, query = nn.Linear(16, SIZE), nn.Linear(16, SIZE)
optimizer = torch.optim.SGD([*encoder.parameters(), *query.parameters()], lr=1e-2)
items = torch.randn(400, PLACES, 16)
answers = items[..., 0].argmax(1)

for step in range(400):
    chosen = torch.randint(400, (ROWS,))
    keys = encoder(items[chosen])
    asked = query(items[chosen].mean(1))
    scores = torch.zeros(ROWS, PLACES)
    for row in range(ROWS):
        for place in range(PLACES):
            scores[row, place] = asked[row].dot(keys[row, place])
    loss = nn.functional.cross_entropy(scores, answers[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 4))
