"""Fine tuning a detector-like CNN with tiny batches; the batch norm statistics stay those of the pretraining."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def cbr(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(cbr(3, 32), cbr(32, 48, 2), cbr(48, 64, 2))
        self.box, self.cls = nn.Linear(64, 4), nn.Linear(64, 5)

    def forward(self, x):
        h = self.f(x).mean((2, 3))
        return self.box(h), self.cls(h)


class FrozenNormTuner:
    def __init__(self, net):
        self.net = net

    def train_mode(self):
        self.net.train()
        for m in self.net.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()


def scenes(n, gen):
    x = 0.3 * torch.randn(n, 3, 40, 40, generator=gen)
    cls = torch.randint(0, 5, (n,), generator=gen)
    pos = torch.randint(0, 28, (n, 2), generator=gen)
    tone = torch.randn(5, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    for i, (r, c) in enumerate(pos.tolist()):
        x[i, :, r:r + 12, c:c + 12] += tone[cls[i]]
    box = torch.cat([pos, pos + 12], 1).float() / 40
    return x, cls, box


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    x, cls, box = scenes(1200, gen)
    net = Body().to(memory_format=torch.channels_last)
    with torch.no_grad():
        net.train()
        for part in x.split(200):
            net(part)
    tuner = FrozenNormTuner(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(9):
        tuner.train_mode()
        for j in torch.randperm(len(x), generator=gen).split(24):
            pb, pc = net(x[j])
            loss = F.cross_entropy(pc, cls[j]) + 5 * F.smooth_l1_loss(pb, box[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


main()
