"""An additive attention that multiplies the encoder's results again at each time step."""

import torch
from torch import nn

torch.manual_seed(0)
ROWS, LENGTH, STEPS, WIDTH, WORDS = 16, 20, 8, 128, 200


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy, self.score = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 1, bias=False)

    def forward(self, state, memory):
        states = state.unsqueeze(1).repeat(1, LENGTH, 1)
        energy = torch.tanh(self.energy(torch.cat((states, memory), dim=2)))
        return self.score(energy).squeeze(2).softmax(dim=1)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.encoder, self.cell = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.GRUCell(WIDTH, WIDTH)
        self.attention, self.head = Attention(), nn.Linear(WIDTH, WORDS)

    def forward(self, source):
        memory, state = self.encoder(self.embedding(source))
        state, logits = state[0], []
        for _ in range(STEPS):
            shares = self.attention(state, memory)
            state = self.cell((shares.unsqueeze(1) @ memory).squeeze(1), state)
            logits.append(self.head(state))
        return torch.stack(logits, dim=1)


model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    source = torch.randint(0, WORDS, (ROWS, LENGTH))
    loss = nn.functional.cross_entropy(model(source).flatten(0, 1), source[:, :STEPS].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
