"""A plain training loop of small steps that says what they took; watching.py has it watched.

python watched.py OUT.json [STEPS]

Readings are of whole epochs, the first left out: loader and loop included, evaluation not. The
tenth is what the fastest tenth of the steps stay below: it feels a busy machine least.
"""

import itertools
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCH, BATCH, CLASSES = 500, 4, 10

steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3 * EPOCH
each = min(EPOCH, steps // 2)  # steps of an epoch
torch.manual_seed(0)
torch.set_num_threads(1)
x, y = torch.randn(each * BATCH, 32), torch.randint(CLASSES, (each * BATCH,))
loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
held_out = DataLoader(TensorDataset(x[: 16 * BATCH], y[: 16 * BATCH]), batch_size=BATCH)
model = nn.Sequential(
    nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Linear(64, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()


def train(inputs, labels):
    """Make one step."""
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()


def evaluate():
    """Return the accuracy on what was held out."""
    model.eval()
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in held_out)
    model.train()
    return right / len(held_out.dataset)


def main():
    """Train, and evaluate after every epoch."""
    taken, totals = [], [0, 0, 0]
    for epoch in range(steps // each):
        began = time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()
        stamps = [began[2]]
        for inputs, labels in loader:
            train(inputs, labels)
            stamps.append(time.perf_counter_ns())
        ended = time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()
        if epoch:
            totals = [t + b - a for t, a, b in zip(totals, began, ended, strict=True)]
            taken += [b - a for a, b in itertools.pairwise(stamps)]
        print(f"epoch {epoch}: accuracy {evaluate():.3f}")
    cpu, all_cpu, wall = (total / len(taken) / 1e3 for total in totals)
    found = {
        "cpu us/step": cpu,
        "wall us/step": wall,
        "tenth wall us/step": statistics.quantiles(taken, n=10)[0] / 1e3,
        "all threads cpu us/step": all_cpu,
    }
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
