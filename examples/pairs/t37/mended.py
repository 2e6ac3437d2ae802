"""PPO on a vectorised point-mass task (reach the origin)."""
import copy
import math
import torch
import torch.nn as nn


class PointMass:
    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.p = torch.randn(n, 2, generator=gen)
        self.v = torch.zeros(n, 2)
        self.t = torch.zeros(n)

    def obs(self):
        return torch.cat([self.p, self.v], 1)

    def step(self, a):
        self.v = 0.9 * self.v + 0.1 * a.clamp(-2, 2)
        self.p = self.p + 0.2 * self.v
        self.t += 1
        r = -self.p.norm(dim=1) - 0.01 * a.pow(2).sum(1)
        done = self.t >= 50
        if done.any():
            k = int(done.sum())
            self.p[done] = torch.randn(k, 2, generator=self.gen)
            self.v[done] = 0
            self.t[done] = 0
        return self.obs(), r, done.float()


class ActorCritic(nn.Module):
    def __init__(self, h=192):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))
        self.vf = nn.Sequential(nn.Linear(4, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, o):
        return self.pi(o), self.vf(o)[:, 0]

    def log_prob(self, mean, a):
        z = (a - mean) / self.log_std.exp()
        return (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(1)


class PPO:
    def __init__(self):
        torch.manual_seed(99)
        self.gen = torch.Generator().manual_seed(99)
        self.env = PointMass(64, self.gen)
        self.ac = ActorCritic()
        self.opt = torch.optim.Adam(self.ac.parameters(), lr=4e-4)

    @torch.no_grad()
    def rollout(self, steps=32, gamma=0.97, lam=0.95):
        obs, act, rew, val, don = [], [], [], [], []
        o = self.env.obs()
        for _ in range(steps):
            mean, v = self.ac(o)
            a = mean + self.ac.log_std.exp() * torch.randn(mean.shape, generator=self.gen)
            obs.append(o); act.append(a); val.append(v)
            o, r, d = self.env.step(a)
            rew.append(r); don.append(d)
        last = self.ac(o)[1]
        adv, g = [], torch.zeros(64)
        for t in reversed(range(steps)):
            nxt = val[t + 1] if t + 1 < steps else last
            delta = rew[t] + gamma * nxt * (1 - don[t]) - val[t]
            g = delta + gamma * lam * (1 - don[t]) * g
            adv.insert(0, g)
        adv, val = torch.cat(adv), torch.cat(val)
        return torch.cat(obs), torch.cat(act), adv, adv + val, torch.cat(rew).mean().item()

    def update(self, obs, act, adv, ret, epochs=8, mb=512, clip=0.2):
        with torch.no_grad():
            old_lp = self.ac.log_prob(self.ac.pi(obs), act)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(epochs):
            for j in torch.randperm(len(obs), generator=self.gen).split(mb):
                mean, v = self.ac(obs[j])
                ratio = (self.ac.log_prob(mean, act[j]) - old_lp[j]).exp()
                surr = torch.min(ratio * adv[j], ratio.clamp(1 - clip, 1 + clip) * adv[j])
                loss = -surr.mean() + 0.5 * (v - ret[j]).pow(2).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
        return loss.item()


if __name__ == "__main__":
    agent = PPO()
    for it in range(25):
        *batch, mean_r = agent.rollout()
        loss = agent.update(*batch)
        print(f"iter {it:2d} reward {mean_r:.3f} loss {loss:.4f}")
