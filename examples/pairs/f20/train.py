"""Rotation-aware classifier. The auxiliary decoder is looked at now and then to see how much detail is left."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Body(nn.Module):
    def __init__(self, w=40):
        super().__init__()
        self.a = nn.Conv2d(1, w, 5, stride=2, padding=2)
        self.b = nn.Conv2d(w, w, 3, padding=1)
        self.c = nn.Conv2d(w, w, 3, stride=2, padding=1)

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))))


class Net(nn.Module):
    def __init__(self, classes=8, w=40):
        super().__init__()
        self.body = Body(w)
        self.cls = nn.Linear(w, classes)
        self.rot = nn.Linear(w, 4)
        self.aux_decoder = nn.Sequential(nn.ConvTranspose2d(w, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x, with_aux=False):
        h = self.body(x)
        v = h.mean((2, 3))
        aux = self.aux_decoder(h.detach()) if with_aux else None
        return self.cls(v), self.rot(v), aux


def dataset(n, gen):
    base = torch.randn(8, 1, 32, 32, generator=gen)
    y = torch.randint(0, 8, (n,), generator=gen)
    return 0.5 * base[y] + torch.randn(n, 1, 32, 32, generator=gen), y


def main():
    torch.manual_seed(40)
    gen = torch.Generator().manual_seed(41)
    x, y = dataset(2000, gen)
    net = Net().to(memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    step = 0
    for epoch in range(10):
        for idx in torch.randperm(len(x), generator=gen).split(100):
            k = int(torch.randint(0, 4, (1,), generator=gen))
            xb = torch.rot90(x[idx], k, (2, 3))
            probe = step % 20 == 0
            cls, rot, aux = net(xb, with_aux=probe)
            loss = F.cross_entropy(cls, y[idx]) + 0.3 * F.cross_entropy(rot, torch.full((len(idx),), k))
            if probe:
                rec = F.mse_loss(aux, xb)
                loss = loss + rec
                print(f"step {step} loss {loss.item():.4f} detail {rec.item():.4f}")
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


if __name__ == "__main__":
    main()
