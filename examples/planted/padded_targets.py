"""Planted: short answers are padded to 96 tokens, and the loss takes the padding in (X2, D23)."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST = 200, 96


class Pairs(Dataset):
    """Questions of 24 tokens, with answers of 4 to 20."""

    def __init__(self, rows):
        draw = random.Random(0)
        self.questions = [[draw.randrange(1, WORDS) for _ in range(24)] for _ in range(rows)]
        self.answers = [row[: draw.randint(4, 20)] for row in self.questions]

    def __len__(self):
        return len(self.questions)

    def __getitem__(self, index):
        answer = self.answers[index]
        labels = torch.zeros(LONGEST, dtype=torch.long)
        labels[: len(answer)] = torch.tensor(answer)
        return {"input_ids": torch.tensor(self.questions[index]), "labels": labels}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.encoder = nn.GRU(64, 64, batch_first=True)
        self.decoder = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, WORDS)

    def forward(self, input_ids, labels):
        _, state = self.encoder(self.words(input_ids))
        before = nn.functional.pad(labels, (1, -1))
        out, _ = self.decoder(self.words(before), state)
        return self.head(out)


torch.manual_seed(0)
loader = DataLoader(Pairs(1600), batch_size=16, shuffle=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
for epoch in range(3):
    for batch in loader:
        optimizer.zero_grad()
        logits = model(batch["input_ids"], batch["labels"])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
