"""Planted: collating fills the batch number by number in Python (D14)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST = 500, 120


class Sentences(Dataset):
    """Lists of word numbers of several lengths."""

    def __init__(self, count):
        draw = torch.Generator().manual_seed(0)
        lengths = torch.randint(10, LONGEST, (count,), generator=draw).tolist()
        self.rows = [torch.randint(1, WORDS, (n,), generator=draw).tolist() for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pad(rows):
    """Return a batch [rows, longest], filled with zeros, and the labels."""
    width = max(len(row) for row in rows)
    batch = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        for position, word in enumerate(row):
            batch[number, position] = word
    return batch, torch.tensor([sum(row) % 2 for row in rows])


torch.manual_seed(0)
loader = DataLoader(Sentences(6_000), batch_size=32, shuffle=True, collate_fn=pad)
embed, head = nn.Embedding(WORDS, 32, padding_idx=0), nn.Linear(32, 2)
optimizer = torch.optim.AdamW([*embed.parameters(), *head.parameters()], lr=1e-3)

for step, (words, labels) in enumerate(loader):
    loss = nn.functional.cross_entropy(head(embed(words).mean(1)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
