"""A small policy makes and checks a distribution for each action of its episodes."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 3))
optimizer = torch.optim.SGD(policy.parameters(), 0.01)
goal = torch.tensor([0.5, -0.5, 1.0, 0.0])
for episode in range(400):
    state, logs, rewards = torch.zeros(4), [], []
    for _ in range(20):
        distribution = Categorical(logits=policy(state))
        action = distribution.sample()
        logs.append(distribution.log_prob(action))
        state = (state + 0.1 * (action - 1)).clamp(-1, 1)
        rewards.append(-float((state - goal).abs().sum()))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(logs) * (returns - returns.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
