"""A character model calls two LSTM cells and its output layer in a loop over time."""

import torch
from torch import nn

torch.manual_seed(0)
VOCAB, WIDTH, LENGTH, ROWS = 40, 96, 48, 12


class CharModel(nn.Module):
    """Two cells, one on the other."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.lower, self.upper = nn.LSTMCell(WIDTH, WIDTH), nn.LSTMCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, characters):
        """Return the logits of the next characters."""
        lower = upper = None
        logits = []
        for place in range(characters.shape[1]):
            lower = self.lower(self.embed(characters[:, place]), lower)
            upper = self.upper(lower[0], upper)
            logits.append(self.head(upper[0]))
        return torch.stack(logits, 1)


text = torch.randint(VOCAB, (20_000,))
model = CharModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(300):
    begins = torch.randint(len(text) - LENGTH - 1, (ROWS,))
    rows = torch.stack([text[begin : begin + LENGTH + 1] for begin in begins.tolist()])
    loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 4))
