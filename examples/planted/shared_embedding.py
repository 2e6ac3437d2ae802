"""An encoder and a decoder share an embedding, and each has an optimizer with all its weights."""

import torch
from torch import nn

torch.manual_seed(0)
embedding = nn.Embedding(100, 32)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = embedding, nn.GRU(32, 32, batch_first=True)

    def forward(self, tokens):
        return self.rnn(self.embedding(tokens))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = embedding, nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, 100)

    def forward(self, tokens, state):
        return self.head(self.rnn(self.embedding(tokens), state)[0])


encoder, decoder = Encoder(), Decoder()
first = torch.optim.Adam(encoder.parameters(), lr=1e-3)
second = torch.optim.Adam(decoder.parameters(), lr=5e-3)
for step in range(300):
    tokens = torch.randint(0, 100, (16, 12))
    logits = decoder(tokens[:, :-1], encoder(tokens))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    first.step()
    second.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
