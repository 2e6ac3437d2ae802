"""Planted: an attention decoder projects the whole picture again for each word (P3)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS = 300


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_picture, self.of_state = nn.Linear(256, 256), nn.Linear(128, 256)
        self.score = nn.Linear(256, 1)
        self.words = nn.Embedding(WORDS, 64)
        self.cell = nn.GRUCell(64 + 256, 128)
        self.head = nn.Linear(128, WORDS)

    def attend(self, picture, state):
        keys = self.of_picture(picture)
        scores = self.score(torch.relu(keys + self.of_state(state)[:, None]))
        return (torch.softmax(scores, 1) * picture).sum(1)

    def forward(self, picture, captions):
        state = picture.new_zeros(len(picture), 128)
        out = []
        for word in self.words(captions[:, :-1]).unbind(1):
            state = self.cell(torch.cat([word, self.attend(picture, state)], 1), state)
            out.append(self.head(state))
        return torch.stack(out, 1)


torch.manual_seed(0)
pictures, captions = torch.randn(1600, 49, 256), torch.randint(0, WORDS, (1600, 13))
loader = DataLoader(TensorDataset(pictures, captions), batch_size=16, shuffle=True)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
for epoch in range(2):
    for picture, caption in loader:
        optimizer.zero_grad()
        logits = model(picture, caption)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), caption[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
