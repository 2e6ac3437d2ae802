"""PPO with discrete actions on a batch of corridor games; acting takes about half of the time by nature."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N, STEPS, A, O = 256, 32, 4, 20


class Corridor:
    """Agents move on a ring of 64 cells and collect decaying coins."""

    def __init__(self, gen):
        self.gen = gen
        self.pos = torch.randint(0, 64, (N,), generator=gen)
        self.coins = torch.rand(N, 64, generator=gen)
        self.offset = torch.arange(-8, 9)

    def obs(self):
        idx = (self.pos[:, None] + self.offset) % 64
        view = self.coins.gather(1, idx)
        ang = self.pos.float()[:, None] * 0.098
        return torch.cat([view, ang.sin(), ang.cos(), self.coins.mean(1, keepdim=True)], 1)

    def step(self, a):
        self.pos = (self.pos + torch.tensor([-2, -1, 1, 2])[a]) % 64
        r = self.coins.gather(1, self.pos[:, None])[:, 0]
        self.coins.scatter_(1, self.pos[:, None], 0.0)
        self.coins += 0.01
        return self.obs(), r


class Policy(nn.Module):
    def __init__(self, h=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(O, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.pi, self.v = nn.Linear(h, A), nn.Linear(h, 1)

    def forward(self, o):
        h = self.body(o)
        return self.pi(h).log_softmax(1), self.v(h)[:, 0]


def main():
    torch.manual_seed(28)
    gen = torch.Generator().manual_seed(28)
    env, net = Corridor(gen), Policy()
    opt = torch.optim.Adam(net.parameters(), lr=7e-4)
    o = env.obs()
    buf_o, buf_a = torch.zeros(STEPS, N, O), torch.zeros(STEPS, N, dtype=torch.long)
    buf_lp, buf_v, buf_r = torch.zeros(STEPS, N), torch.zeros(STEPS + 1, N), torch.zeros(STEPS, N)
    for it in range(48):
        with torch.no_grad():
            for t in range(STEPS):
                lp, v = net(o)
                a = torch.multinomial(lp.exp(), 1, generator=gen)
                buf_o[t], buf_a[t], buf_v[t], buf_lp[t] = o, a[:, 0], v, lp.gather(1, a)[:, 0]
                o, buf_r[t] = env.step(a[:, 0])
            buf_v[STEPS] = net(o)[1]
            adv, g = torch.zeros(STEPS, N), torch.zeros(N)
            for t in reversed(range(STEPS)):
                g = buf_r[t] + 0.95 * buf_v[t + 1] - buf_v[t] + 0.95 * 0.95 * g
                adv[t] = g
            ret = (adv + buf_v[:STEPS]).flatten()
            adv = ((adv - adv.mean()) / adv.std()).flatten()
        fo, fa, flp = buf_o.flatten(0, 1), buf_a.flatten(), buf_lp.flatten()
        for _ in range(2):
            for j in torch.randperm(STEPS * N, generator=gen).split(2048):
                lp, v = net(fo[j])
                ratio = (lp.gather(1, fa[j, None])[:, 0] - flp[j]).exp()
                surr = torch.min(ratio * adv[j], ratio.clamp(0.8, 1.2) * adv[j]).mean()
                ent = -(lp.exp() * lp).sum(1).mean()
                loss = -surr + 0.5 * F.mse_loss(v, ret[j]) - 0.01 * ent
                opt.zero_grad()
                loss.backward()
                opt.step()
        if it % 4 == 0:
            print(f"iter {it} reward {buf_r.mean().item():.4f} loss {loss.item():.4f}")


main()
