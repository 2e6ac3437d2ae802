"""Momentum contrast with a ring of 2048 past keys."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def encoder(d_out=64):
    return nn.Sequential(
        nn.Conv1d(3, 48, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv1d(48, 64, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv1d(64, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, d_out))


class MoCo(nn.Module):
    def __init__(self, ring=2048, d=64, m=0.99, temp=0.2):
        super().__init__()
        self.q, self.k = encoder(d), encoder(d)
        self.k.load_state_dict(self.q.state_dict())
        self.k.requires_grad_(False)
        self.m, self.temp, self.ptr = m, temp, 0
        self.register_buffer("ring", F.normalize(torch.randn(ring, d), dim=1))

    @torch.no_grad()
    def keys(self, x):
        torch._foreach_lerp_(list(self.k.parameters()), list(self.q.parameters()), 1 - self.m)
        return F.normalize(self.k(x), dim=1)

    def forward(self, a, b):
        q, k = F.normalize(self.q(a), dim=1), self.keys(b)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.ring.clone().t()], 1) / self.temp
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        self.ring[self.ptr:self.ptr + len(k)] = k
        self.ptr = (self.ptr + len(k)) % len(self.ring)
        return loss


def views(x, gen):
    def one():
        s = int(torch.randint(0, 96, (1,), generator=gen))
        return torch.roll(x, s, 2) * (0.7 + 0.6 * torch.rand(len(x), 3, 1, generator=gen))
    return one(), one()


def main():
    torch.manual_seed(43)
    gen = torch.Generator().manual_seed(43)
    t = torch.linspace(0, 1, 96)
    f = torch.randint(1, 20, (3000, 3, 1), generator=gen)
    data = torch.sin(6.283 * f * t) + 0.3 * torch.randn(3000, 3, 96, generator=gen)
    model = MoCo()
    opt = torch.optim.SGD(model.q.parameters(), lr=0.05, momentum=0.9)
    for step in range(520):
        j = torch.randint(len(data), (128,), generator=gen)
        loss = model(*views(data[j], gen))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
