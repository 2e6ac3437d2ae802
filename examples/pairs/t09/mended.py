"""DQN on a small grid world with wind. Hand-written environment."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class WindyGrid:
    size = 7

    def reset(self):
        self.pos = [random.randrange(self.size), 0]
        self.goal = (random.randrange(self.size), self.size - 1)
        self.t = 0
        return self.obs()

    def obs(self):
        o = np.zeros((2, self.size, self.size), dtype=np.float32)
        o[0, self.pos[0], self.pos[1]] = 1
        o[1, self.goal[0], self.goal[1]] = 1
        return o.reshape(-1)

    def step(self, a):
        dy, dx = [(-1, 0), (1, 0), (0, -1), (0, 1)][a]
        if random.random() < 0.1:
            dy -= 1
        self.pos[0] = min(max(self.pos[0] + dy, 0), self.size - 1)
        self.pos[1] = min(max(self.pos[1] + dx, 0), self.size - 1)
        self.t += 1
        done = tuple(self.pos) == self.goal
        return self.obs(), (1.0 if done else -0.02), done, done or self.t >= 40


class QNet(nn.Module):
    def __init__(self, n_obs, n_act, h=384):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(n_obs, h), nn.Linear(h, h), nn.Linear(h, n_act)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class Agent:
    gamma = 0.97

    def __init__(self):
        self.q, self.target = QNet(98, 4), QNet(98, 4)
        self.target.load_state_dict(self.q.state_dict())
        self.optim = torch.optim.Adam(self.q.parameters(), lr=5e-4)
        self.memory = deque(maxlen=5000)

    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(4)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(obs)).argmax())

    def learn(self, batch_size=256):
        s, a, r, s2, d = zip(*random.sample(self.memory, batch_size))
        s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
        a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d, dtype=torch.float32)
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            goal = r + self.gamma * (1 - d) * self.target(s2).max(1).values
        loss = F.smooth_l1_loss(q, goal)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return loss.item()


def main():
    random.seed(0); np.random.seed(0); torch.manual_seed(0)
    env, agent = WindyGrid(), Agent()
    obs, ret, rets, updates = env.reset(), 0.0, [], 0
    for t in range(2400):
        a = agent.act(obs, max(0.05, 1 - t / 1500))
        nxt, r, done, over = env.step(a)
        agent.memory.append((obs, a, r, nxt, float(done)))
        ret += r
        obs = nxt
        if over:
            rets.append(ret); ret = 0.0; obs = env.reset()
        if len(agent.memory) >= 400 and t % 2 == 0:
            loss = agent.learn()
            updates += 1
            if updates % 100 == 0:
                agent.target.load_state_dict(agent.q.state_dict())
                print(f"t {t} updates {updates} loss {loss:.5f} return {np.mean(rets[-20:]):.3f}")


if __name__ == "__main__":
    main()
