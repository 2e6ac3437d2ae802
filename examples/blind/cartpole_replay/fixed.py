"""DQN with prioritized replay on a small numpy cart-pole."""

import argparse
import math
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class CartPole:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, x_dot, th, th_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(th), math.sin(th)
        temp = (force + 0.05 * th_dot**2 * sin) / 1.1
        th_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * th_acc * cos / 1.1
        self.state = np.array(
            [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, th + 0.02 * th_dot, th_dot + 0.02 * th_acc]
        )
        self.t += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state.astype(np.float32), 1.0, fell, self.t >= 200


class ReplayBuffer:
    def __init__(self, capacity, alpha=0.6):
        self.memory = []
        self.capacity = capacity
        self.leaves = 1 << (capacity - 1).bit_length()
        self.tree = [0.0] * (2 * self.leaves)
        self.pos = 0
        self.alpha = alpha
        self.max_priority = 1.0

    def set_priority(self, i, priority):
        node = i + self.leaves
        self.tree[node] = priority**self.alpha
        while node > 1:
            node //= 2
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def find(self, mass):
        node = 1
        while node < self.leaves:
            node *= 2
            if mass >= self.tree[node] and self.tree[node + 1] > 0:
                mass -= self.tree[node]
                node += 1
        return node - self.leaves

    def add(self, transition):
        self.memory[self.pos : self.pos + 1] = [transition]
        self.set_priority(self.pos, self.max_priority)
        self.pos = (self.pos + 1) % self.capacity

    def sample(self, batch_size, beta):
        idx = [self.find(m) for m in np.random.random(batch_size) * self.tree[1]]
        probs = np.array([self.tree[i + self.leaves] for i in idx]) / self.tree[1]
        weights = (len(self.memory) * probs) ** (-beta)
        weights = weights / weights.max()
        obs, act, rew, nxt, done = zip(*[self.memory[i] for i in idx])
        batch = (
            torch.from_numpy(np.stack(obs)),
            torch.tensor(act),
            torch.tensor(rew),
            torch.from_numpy(np.stack(nxt)),
            torch.tensor(done, dtype=torch.float32),
        )
        return idx, torch.tensor(weights, dtype=torch.float32), batch

    def update(self, idx, errors):
        for i, e in zip(idx, errors):
            self.set_priority(i, float(e) + 1e-4)
            self.max_priority = max(self.max_priority, float(e) + 1e-4)


def make_net():
    return nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=90000)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    env, buffer = CartPole(), ReplayBuffer(100_000)
    net, target = make_net(), make_net()
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)

    obs, episode, returns, losses = env.reset(), 0.0, [], []
    for step in range(-args.warmup, args.steps):
        eps = 1.0 if step < 0 else max(0.05, 1.0 - step / 700)
        if random.random() < eps:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = int(net(torch.from_numpy(obs)).argmax())
        nxt, reward, fell, timeout = env.step(action)
        buffer.add((obs, action, reward, nxt, fell))
        episode += reward
        obs = nxt
        if fell or timeout:
            returns.append(episode)
            obs, episode = env.reset(), 0.0
        if step < 0:
            continue

        idx, weights, (s, a, r, s2, d) = buffer.sample(32, beta=0.4 + 0.6 * step / args.steps)
        with torch.no_grad():
            goal = r + 0.99 * (1 - d) * target(s2).max(1).values
        error = net(s).gather(1, a.unsqueeze(1)).squeeze(1) - goal
        loss = (weights * error.pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        buffer.update(idx, error.detach().abs().numpy())
        losses.append(loss.item())
        if step % 200 == 0:
            target.load_state_dict(net.state_dict())
            print(
                f"step {step} loss {np.mean(losses[-200:]):.4f} return {np.mean(returns[-20:]):.1f}"
            )

    torch.save(net.state_dict(), out / "dqn.pt")


if __name__ == "__main__":
    main()
