"""Price model, trained in two sittings (the queue allows only 16 epochs in one). Second sitting goes on from the checkpoint."""
import pathlib
import torch
import torch.nn as nn

CKPT = pathlib.Path(__file__).parent / "ckpt.pt"


def flats(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 48, generator=g)
    w = torch.randn(48, 10, generator=torch.Generator().manual_seed(1)) / 7
    return x, torch.sin(x @ w).sum(1) + 0.1 * torch.randn(n, generator=g)


class Session:
    def __init__(self, resume):
        torch.manual_seed(81)
        self.net = nn.Sequential(nn.Linear(48, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.95)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.85)
        self.epoch = 0
        if resume:
            self.load()

    def save(self):
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(),
                    "sched": self.sched.state_dict(), "epoch": self.epoch}, CKPT)

    def load(self):
        ck = torch.load(CKPT)
        self.net.load_state_dict(ck["net"])
        self.opt.load_state_dict(ck["opt"])
        self.sched.load_state_dict(ck["sched"])
        self.epoch = ck["epoch"]
        print(f"resumed from epoch {self.epoch}")

    def run(self, until, x, y, xv, yv):
        while self.epoch < until:
            g = torch.Generator().manual_seed(self.epoch)
            tot = 0.0
            for j in torch.randperm(len(x), generator=g).split(200):
                loss = nn.functional.mse_loss(self.net(x[j])[:, 0], y[j])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                tot += loss.item() * len(j)
            self.sched.step()
            self.epoch += 1
            with torch.no_grad():
                v = nn.functional.mse_loss(self.net(xv)[:, 0], yv).item()
            print(f"epoch {self.epoch} train {tot / len(x):.4f} val {v:.4f} lr {self.opt.param_groups[0]['lr']:.5f}")
        self.save()


def main():
    x, y = flats(8000, 2)
    xv, yv = flats(1500, 3)
    Session(resume=False).run(16, x, y, xv, yv)
    Session(resume=True).run(24, x, y, xv, yv)


if __name__ == "__main__":
    main()
