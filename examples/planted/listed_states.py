"""States of a game are kept in a list, and each update makes tensors of lists of arrays."""

import random
from collections import deque

import numpy as np
import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
rng = np.random.default_rng(0)
memory: deque[tuple[np.ndarray, int, float, np.ndarray]] = deque(maxlen=2000)
for _ in range(2000):
    state = rng.standard_normal(32).astype(np.float32)
    memory.append((state, int(rng.integers(4)), float(state.sum()), state[::-1].copy()))
network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(network.parameters(), 0.01)
for update in range(2000):
    states, actions, rewards, following = zip(*random.sample(memory, 64), strict=True)
    now = torch.tensor(states)
    then = torch.FloatTensor(following)
    with torch.no_grad():
        target = torch.tensor(rewards) + 0.9 * network(then).max(1).values
    value = network(now).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
    loss = nn.functional.mse_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
