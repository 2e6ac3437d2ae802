"""An LSTM over words without loader and optimizer: hand-made batches, parameters moved by hand.

Follows pytorch/examples word_language_model/main.py @ 0f4dca7dc202798f545ca7c006c91956cb584f43
(BSD-3-Clause) in which parts of PyTorch it uses and in which order; the code is ours. The whole
module is pickled with torch.save whenever validation improves, and read back at the end.
"""

import argparse
import math
import random
from pathlib import Path

import torch
from torch import nn

SUBJECTS = ["the fox", "a dog", "the old wizard", "my neighbour", "every bird"]
VERBS = ["sees", "follows", "paints", "forgets", "sells"]
OBJECTS = ["a river", "the moon", "two apples", "his hat", "an empty house"]


def words(count: int) -> list[str]:
    choose = random.Random(7).choice
    text: list[str] = []
    while len(text) < count:
        text += f"{choose(SUBJECTS)} {choose(VERBS)} {choose(OBJECTS)} .".split()
    return text[:count]


def columns(ids: torch.Tensor, width: int) -> torch.Tensor:
    """Return the text cut in `width` columns, shape [rows, width]."""
    rows = len(ids) // width
    return ids[: rows * width].view(width, rows).T.contiguous()


class WordModel(nn.Module):
    def __init__(self, vocabulary: int, size: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.lstm = nn.LSTM(size, size, num_layers=2, dropout=0.1)
        self.out = nn.Linear(size, vocabulary)
        self.out.weight = self.embedding.weight

    def forward(self, ids, state):
        hidden, state = self.lstm(self.embedding(ids), state)
        return self.out(hidden).flatten(0, 1), state


def pieces(table: torch.Tensor, length: int):
    for start in range(0, len(table) - 1, length):
        stop = min(start + length, len(table) - 1)
        yield table[start:stop], table[start + 1 : stop + 1].flatten()


def validate(model: WordModel, table: torch.Tensor, length: int) -> float:
    model.eval()
    total, state = 0.0, None
    with torch.no_grad():
        for ids, targets in pieces(table, length):
            logits, state = model(ids, state)
            total += nn.functional.cross_entropy(logits, targets, reduction="sum").item()
    return total / (len(table) - 1) / table.shape[1]


def one_epoch(model: WordModel, table: torch.Tensor, length: int, rate: float) -> float:
    model.train()
    total, state = 0.0, None
    for ids, targets in pieces(table, length):
        state = state and tuple(part.detach() for part in state)
        model.zero_grad()
        logits, state = model(ids, state)
        loss = nn.functional.cross_entropy(logits, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-rate)
        total += loss.item()
    return total


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, default=Path("out"))
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--length", type=int, default=12)
    given = options.parse_args()
    torch.manual_seed(1111)
    text = words(4000)
    number = {word: index for index, word in enumerate(sorted(set(text)))}
    ids = torch.tensor([number[word] for word in text])
    model, rate, best = WordModel(len(number)), 4.0, math.inf
    given.out.mkdir(exist_ok=True)
    saved = given.out / "word_model.pt"
    for epoch in range(given.epochs):
        total = one_epoch(model, columns(ids[:3200], 8), given.length, rate)
        loss = validate(model, columns(ids[3200:], 4), given.length)
        print(f"epoch {epoch}: {total:.6f}, held out {loss:.6f}, perplexity {math.exp(loss):.4f}")
        if loss < best:
            best = loss
            torch.save(model, saved)
        else:
            rate /= 4
    model = torch.load(saved, weights_only=False)
    print(f"best again: {validate(model, columns(ids[3200:], 4), given.length):.6f}")


if __name__ == "__main__":
    main()
