"""Double DQN, pole-like toy control, replay kept in preallocated tensors."""
import math
import torch
from torch import nn


class Pole:
    """Vectorised inverted pendulum with 3 actions (32 copies)."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.th = (torch.rand(n, generator=gen) - 0.5) * 0.4
        self.w = torch.zeros(n)

    def obs(self):
        return torch.stack([torch.sin(self.th), torch.cos(self.th), self.w], 1)

    def step(self, a):
        u = (a - 1).float() * 3.0
        self.w = (self.w + 0.05 * (9.8 * torch.sin(self.th) + u)).clamp(-8, 8)
        self.th = self.th + 0.05 * self.w
        rew = torch.cos(self.th) - 0.01 * u.abs()
        done = self.th.abs() > math.pi / 2
        k = int(done.sum())
        if k:
            self.th[done] = (torch.rand(k, generator=self.gen) - 0.5) * 0.4
            self.w[done] = 0
        return self.obs(), rew, done.float()


class Replay:
    def __init__(self, cap, gen):
        self.s, self.s2 = torch.zeros(cap, 3), torch.zeros(cap, 3)
        self.a, self.r, self.d = torch.zeros(cap, dtype=torch.long), torch.zeros(cap), torch.zeros(cap)
        self.cap, self.n, self.i, self.gen = cap, 0, 0, gen

    def push(self, s, a, r, s2, d):
        j = (torch.arange(len(a)) + self.i) % self.cap
        self.s[j], self.a[j], self.r[j], self.s2[j], self.d[j] = s, a, r, s2, d
        self.i = (self.i + len(a)) % self.cap
        self.n = min(self.cap, self.n + len(a))

    def sample(self, b):
        j = torch.randint(self.n, (b,), generator=self.gen)
        return self.s[j], self.a[j], self.r[j], self.s2[j], self.d[j]


def qnet():
    return nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 3))


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    env, mem = Pole(32, gen), Replay(20000, gen)
    online, target = qnet(), qnet()
    target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=7e-4)
    s = env.obs()
    for t in range(700):
        eps = max(0.05, 1 - t / 400)
        with torch.no_grad():
            a = online(s).argmax(1)
        rnd = torch.rand(32, generator=gen) < eps
        a = torch.where(rnd, torch.randint(3, (32,), generator=gen), a)
        s2, r, d = env.step(a)
        mem.push(s, a, r, s2, d)
        s = s2
        bs, ba, br, bs2, bd = mem.sample(1024)
        with torch.no_grad():
            best = online(bs2).argmax(1, keepdim=True)
            y = br + 0.98 * (1 - bd) * target(bs2).gather(1, best)[:, 0]
        loss = nn.functional.smooth_l1_loss(online(bs).gather(1, ba[:, None])[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if t % 50 == 49:
            target.load_state_dict(online.state_dict())
        if t % 100 == 99:
            print(f"{t + 1} loss {loss.item():.4f} reward {r.mean().item():.3f}")


main()
