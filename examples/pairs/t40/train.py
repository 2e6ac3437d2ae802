"""Attractor forecasting (Lorenz) with a live picture of the training."""
import csv
import os
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn as nn

HERE = os.path.dirname(os.path.abspath(__file__))


def lorenz(n, dt=0.01):
    s, out = torch.tensor([1.0, 1.0, 1.0]), []
    x, y, z = 1.0, 1.0, 1.0
    for _ in range(n):
        x, y, z = x + dt * 10 * (y - x), y + dt * (x * (28 - z) - y), z + dt * (x * y - 8 / 3 * z)
        out.append((x, y, z))
    a = torch.tensor(out)
    return (a - a.mean(0)) / a.std(0)


class Board:
    def __init__(self):
        self.steps, self.loss, self.lr = [], [], []
        with open(os.path.join(HERE, "curve.csv"), "w") as f:
            f.write("step,loss,lr\n")

    def log(self, step, loss, lr):
        self.steps.append(step); self.loss.append(loss); self.lr.append(lr)
        with open(os.path.join(HERE, "curve.csv"), "a", newline="") as f:
            csv.writer(f).writerow([step, f"{loss:.6f}", f"{lr:.6f}"])
        if step % 5 == 0:
            self.draw()

    def draw(self):
        fig, ax = plt.subplots(1, 2, figsize=(6, 3))
        ax[0].plot(self.steps, self.loss)
        ax[0].set_yscale("log")
        ax[1].plot(self.steps, self.lr)
        fig.savefig(os.path.join(HERE, "curve.png"))
        plt.close(fig)


def main(steps=120, past=24):
    torch.manual_seed(36)
    s = lorenz(12000)
    x = s.unfold(0, past, 1)[:-1].flatten(1).contiguous()
    y = s[past:]
    net = nn.Sequential(nn.Linear(3 * past, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=steps)
    board = Board()
    gen = torch.Generator().manual_seed(36)
    for step in range(1, steps + 1):
        j = torch.randint(len(y), (1024,), generator=gen)
        loss = nn.functional.mse_loss(net(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        board.log(step, loss.item(), sched.get_last_lr()[0])
        print(f"step {step} loss {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
