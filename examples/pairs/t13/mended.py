"""Matrix factorisation with side towers for a book shop (implicit feedback)."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Cfg:
    users: int = 60000
    items: int = 40000
    dim: int = 32
    batch: int = 512
    steps: int = 360
    lr: float = 0.05
    seed: int = 9


class TwoTower(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.user_emb = nn.Embedding(c.users, c.dim, sparse=True)
        self.item_emb = nn.Embedding(c.items, c.dim, sparse=True)
        nn.init.normal_(self.user_emb.weight, std=0.05)
        nn.init.normal_(self.item_emb.weight, std=0.05)
        self.user_net = nn.Sequential(nn.Linear(c.dim, 64), nn.ReLU(), nn.Linear(64, c.dim))
        self.item_net = nn.Sequential(nn.Linear(c.dim, 64), nn.ReLU(), nn.Linear(64, c.dim))

    def forward(self, u, i):
        a = self.user_net(self.user_emb(u))
        b = self.item_net(self.item_emb(i))
        return a @ b.t()


def interactions(c, n=200_000):
    g = torch.Generator().manual_seed(c.seed)
    u = (torch.rand(n, generator=g) ** 2 * c.users).long()
    noise = torch.randint(-40, 40, (n,), generator=g)
    i = ((u * 7) % c.items + noise).clamp(0, c.items - 1)
    return u, i


def main():
    c = Cfg()
    torch.manual_seed(c.seed)
    u, i = interactions(c)
    model = TwoTower(c)
    emb = [model.user_emb.weight, model.item_emb.weight]
    net = [p for n, p in model.named_parameters() if "emb" not in n]
    opt_emb = torch.optim.Adagrad(emb, lr=c.lr)
    opt_net = torch.optim.Adam(net, lr=1e-3)
    order = torch.randperm(len(u))
    for step in range(c.steps):
        j = order[step * c.batch:(step + 1) * c.batch]
        scores = model(u[j], i[j])
        loss = F.cross_entropy(scores * 5, torch.arange(len(j)))
        opt_emb.zero_grad()
        opt_net.zero_grad()
        loss.backward()
        opt_emb.step()
        opt_net.step()
        if step % 60 == 0:
            hit = (scores.argmax(1) == torch.arange(len(j))).float().mean().item()
            print(f"step {step:4d} loss {loss.item():.4f} in-batch hit {hit:.4f}")
    print("last loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
