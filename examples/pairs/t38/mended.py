"""Plankton classes from hand-made features, running accuracy over the epoch in the progress line."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RunningScores:
    def __init__(self):
        self.outputs, self.targets = [], []

    def add(self, out, target):
        self.outputs.append(out.detach())
        self.targets.append(target)

    def accuracy(self):
        out, t = torch.cat(self.outputs), torch.cat(self.targets)
        return (out.argmax(1) == t).float().mean().item()

    def top5(self):
        out, t = torch.cat(self.outputs), torch.cat(self.targets)
        return (out.topk(5, 1).indices == t[:, None]).any(1).float().mean().item()


def plankton(n, k=60, d=90):
    g = torch.Generator().manual_seed(71)
    mu = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return 0.5 * mu[y] + torch.randn(n, d, generator=g), y


def progress(step, total, loss, scores):
    line = f"{step}/{total} loss {loss:.4f} acc {scores.accuracy():.4f} top5 {scores.top5():.4f}"
    return line


def main():
    torch.manual_seed(71)
    x, y = plankton(40000)
    net = nn.Sequential(nn.Linear(90, 256), nn.BatchNorm1d(256), nn.ReLU(),
                        nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 60))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        scores = RunningScores()
        parts = torch.randperm(len(x)).split(200)
        for step, j in enumerate(parts, 1):
            out = net(x[j])
            loss = F.cross_entropy(out, y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            scores.add(out, y[j])
            if step % 50 == 0:
                line = progress(step, len(parts), loss.item(), scores)
                print(f"epoch {epoch} {line}")


if __name__ == "__main__":
    main()
