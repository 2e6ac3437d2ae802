import copy
import torch
from torch import nn
import torch.nn.functional as F


class MixerBlock(nn.Module):
    def __init__(self, tokens, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tok = nn.Sequential(nn.Linear(tokens, tokens * 2), nn.GELU(), nn.Linear(tokens * 2, tokens))
        self.ch = nn.Sequential(nn.Linear(d, d * 4), nn.GELU(), nn.Linear(d * 4, d))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, patch=4, d=256, depth=6, classes=10):
        super().__init__()
        self.embed = nn.Conv2d(1, d, patch, stride=patch)
        self.blocks = nn.Sequential(*[MixerBlock(9, d) for _ in range(depth)])
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


def glyphs(n, seed):
    g = torch.Generator().manual_seed(seed)
    base = (torch.rand(10, 1, 12, 12, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    y = torch.randint(0, 10, (n,), generator=g)
    return base[y] + 0.9 * torch.randn(n, 1, 12, 12, generator=g), y


class Keeper:
    def __init__(self):
        self.best, self.model = float("inf"), None
        self.avg = None

    def offer(self, loss, model):
        self.avg = loss if self.avg is None else 0.9 * self.avg + 0.1 * loss
        snapshot = copy.deepcopy(model)
        if self.avg < self.best:
            self.best, self.model = self.avg, snapshot


def main(steps=330, bs=4):
    torch.manual_seed(0)
    x, y = glyphs(3000, 1)
    model, keeper = Mixer(), Keeper()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    gen = torch.Generator().manual_seed(0)
    for step in range(steps):
        j = torch.randint(len(x), (bs,), generator=gen)
        loss = F.cross_entropy(model(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        keeper.offer(loss.item(), model)
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f} best {keeper.best:.4f}")
    with torch.no_grad():
        xv, yv = glyphs(500, 2)
        print("best model acc", (keeper.model(xv).argmax(1) == yv).float().mean().item())


if __name__ == "__main__":
    main()
