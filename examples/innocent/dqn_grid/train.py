"""Double DQN with a dueling head, a target network and a replay ring buffer."""

import json
import logging
import pathlib
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from world import Garden

log = logging.getLogger("dqn")
HERE = pathlib.Path(__file__).parent


class Dueling(nn.Module):
    def __init__(self, n_actions, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(100, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, n_actions)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Ring:
    def __init__(self, size, shape, rng):
        self.o, self.o2 = np.zeros((2, size, *shape), np.float32)
        self.a, self.r, self.d = (
            np.zeros(size, np.int64),
            np.zeros(size, np.float32),
            np.zeros(size, np.float32),
        )
        self.size, self.n, self.rng = size, 0, rng

    def add(self, o, a, r, o2, d):
        i = self.n % self.size
        self.o[i], self.a[i], self.r[i], self.o2[i], self.d[i] = o, a, r, o2, d
        self.n += 1

    def sample(self, k):
        i = self.rng.integers(min(self.n, self.size), size=k)
        return [torch.from_numpy(x[i]) for x in (self.o, self.a, self.r, self.o2, self.d)]


@torch.no_grad()
def play(net, episodes, seed):
    env, total = Garden(seed), 0.0
    net.eval()
    for _ in range(episodes):
        o, over = env.reset(), False
        while not over:
            o, r, dead, cut = env.step(net(torch.from_numpy(o)[None]).argmax(1).item())
            total += r
            over = dead or cut
    net.train()
    return total / episodes


def main():
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S"
    )
    c = SimpleNamespace(**json.loads((HERE / "hparams.json").read_text()))
    torch.manual_seed(c.seed)
    torch.set_num_threads(c.threads)
    rng = np.random.default_rng(c.seed)
    env = Garden(c.seed)
    q, target = Dueling(env.n_actions, c.width), Dueling(env.n_actions, c.width)
    target.load_state_dict(q.state_dict())
    target.requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=c.lr)
    ring = Ring(c.replay, env.shape, rng)
    out = HERE / "out"
    out.mkdir(exist_ok=True)

    o, step, best = env.reset(), 0, -9.0
    while step < c.max_steps:
        eps = max(c.eps_end, 1 - (1 - c.eps_end) * step / c.eps_steps)
        if rng.random() < eps:
            a = int(rng.integers(env.n_actions))
        else:
            with torch.no_grad():
                a = q(torch.from_numpy(o)[None]).argmax(1).item()
        o2, r, dead, cut = env.step(a)
        ring.add(o, a, r, o2, dead)
        o = env.reset() if dead or cut else o2
        step += 1
        if step >= c.learn_after and step % c.learn_every == 0:
            s, act, rew, s2, done = ring.sample(c.batch)
            with torch.no_grad():
                pick = q(s2).argmax(1, keepdim=True)
                goal = rew + c.gamma * (1 - done) * target(s2).gather(1, pick).squeeze(1)
            loss = nn.functional.smooth_l1_loss(q(s).gather(1, act[:, None]).squeeze(1), goal)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            opt.step()
        if step % c.sync_every == 0:
            target.load_state_dict(q.state_dict())
        if step % c.eval_every == 0:
            score = play(q, c.eval_episodes, seed=10_000)
            log.info("step %d  eps %.2f  return %.3f", step, eps, score)
            if score > best:
                best = score
                torch.save(q.state_dict(), out / "best.pt")
    log.info("best return %.3f", best)


if __name__ == "__main__":
    main()
