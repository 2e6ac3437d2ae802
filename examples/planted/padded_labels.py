"""Planted: a language model learns its padding, and long texts are cut (X2, X3)."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAX_LENGTH, PAD = 48, 0
SENTENCE = "the cat saw a small bird near old trees and sang to it for one long summer day"
WORDS = SENTENCE.split()
VOCABULARY = {word: number for number, word in enumerate(WORDS, 1)}


class Texts(Dataset):
    """Sentences of 5 to 60 words as rows of one width."""

    def __init__(self, count):
        draw = random.Random(0)
        self.texts = [draw.choices(WORDS, k=draw.randint(5, 60)) for _ in range(count)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = [VOCABULARY[word] for word in self.texts[index]][:MAX_LENGTH]
        ids += [PAD] * (MAX_LENGTH - len(ids))
        input_ids = torch.tensor(ids)
        return {"input_ids": input_ids, "labels": input_ids.clone()}


class Model(nn.Module):
    """Predicts the next word."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS) + 1, 64)
        self.rnn = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, len(WORDS) + 1)

    def forward(self, ids):
        """Return logits, [B, T, V]."""
        return self.head(self.rnn(self.embed(ids))[0])


torch.manual_seed(0)
data, model = Texts(2400), Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch in DataLoader(data, batch_size=32, shuffle=True):
        logits = model(batch["input_ids"])[:, :-1]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
