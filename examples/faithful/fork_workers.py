"""Forked workers: a sharded iterable data set, a batch sampler of one's own, persistent workers.

Corner: the order of samples, what each worker draws, and where the three global generators
(torch, numpy, random) stand at the end: one draw too many shows in the last line.
"""

import hashlib
import pickle
import random
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info


class Stream(IterableDataset):
    """Counts up, each worker its own share, with noise from the worker's generators."""

    def __iter__(self):
        info = get_worker_info()
        for number in range(info.id, 30, info.num_workers):
            yield number, random.random() + np.random.rand() + torch.rand(()).item()


class Table(Dataset):
    """Rows with a length; read by lists of indices, so it defines __getitems__ too."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), index / 48) + 0.01 * torch.randn(4)

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in reversed(indices)]


class Mirrored(Sampler):
    """Batches of one small and one large index each."""

    def __iter__(self):
        order = torch.randperm(24).tolist()
        for start in range(0, 24, 3):
            half = order[start : start + 3]
            yield half + [47 - index for index in half]

    def __len__(self) -> int:
        return 8


def seed_worker(worker: int) -> None:
    random.seed(torch.initial_seed() + worker)
    np.random.seed((torch.initial_seed() + worker) % 2**32)


def digest(value: object) -> str:
    return hashlib.sha256(pickle.dumps(value)).hexdigest()[:16]


random.seed(1)
np.random.seed(2)
torch.manual_seed(3)
workers = {"num_workers": 2, "multiprocessing_context": "fork", "worker_init_fn": seed_worker}
stream = DataLoader(Stream(), batch_size=5, generator=torch.Generator().manual_seed(6), **workers)
table = DataLoader(Table(), batch_sampler=Mirrored(), persistent_workers=True, **workers)
for numbers, noise in stream:
    print(numbers.tolist(), noise.sum().item())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
for epoch in range(3):
    for rows in table:
        optimizer.zero_grad()
        loss = (model(rows) - rows.mean(1, keepdim=True)).abs().mean()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {len(table)} batches, loss {loss.item()}")
    if epoch == 1:
        break  # leaves persistent workers behind
iterator = iter(table)
print("one more:", next(iterator).sum().item())
Path("out").mkdir(exist_ok=True)
torch.save(model.state_dict(), "out/fork.pt")
states = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
print("generators:", *(digest(state) for state in states))
