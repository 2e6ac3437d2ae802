"""Two-stage training: pretrain on plentiful simulated sensors, then warm start (weights only) on a new, smaller task with a fresh optimizer."""
import pathlib
import torch
import torch.nn as nn

WEIGHTS = pathlib.Path(__file__).parent / "pretrained.pt"


class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(40, 416), nn.SiLU(), nn.Linear(416, 416), nn.SiLU())
        self.head = nn.Linear(416, out)

    def forward(self, x):
        return self.head(self.body(x))


def task(n, out, seed, noise):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(40, 16, generator=torch.Generator().manual_seed(0)) / 6
    v = torch.randn(16, out, generator=g)
    x = torch.randn(n, 40, generator=g)
    return x, torch.tanh(2 * x @ w) @ v + noise * torch.randn(n, out, generator=g)


def fit(net, opt, x, y, epochs, bs, tag, sched=None):
    for e in range(epochs):
        tot = 0.0
        for j in torch.randperm(len(x)).split(bs):
            loss = nn.functional.mse_loss(net(x[j]), y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(j)
        if sched:
            sched.step()
        print(f"{tag} {e} mse {tot / len(x):.4f}")


def main():
    torch.manual_seed(82)
    pre = Net(8)
    opt = torch.optim.Adam(pre.parameters(), lr=1e-3, fused=True)
    fit(pre, opt, *task(16000, 8, 1, 0.1), epochs=15, bs=400, tag="simulated")
    torch.save({"model": pre.state_dict(), "optimizer": opt.state_dict()}, WEIGHTS)

    net = Net(2)
    state = torch.load(WEIGHTS)["model"]
    missing = net.load_state_dict({k: v for k, v in state.items() if k.startswith("body")}, strict=False)
    print("from scratch:", missing.missing_keys)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 16)
    fit(net, opt, *task(6000, 2, 5, 0.3), epochs=16, bs=300, tag="real", sched=sched)


if __name__ == "__main__":
    main()
