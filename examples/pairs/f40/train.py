"""Van der Pol surrogate; a line each 50 steps, one picture when all is done."""
import pathlib
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn as nn

HERE = pathlib.Path(__file__).parent


def simulate(n, steps, mu, gen, dt=0.05):
    s = 4 * torch.rand(n, 2, generator=gen) - 2
    out = [s]
    for _ in range(steps):
        x, v = s[:, 0], s[:, 1]
        s = torch.stack([x + dt * v, v + dt * (mu * (1 - x * x) * v - x)], 1)
        out.append(s)
    return torch.stack(out, 1)


class StepNet(nn.Module):
    def __init__(self, h=400):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))

    def forward(self, s):
        return s + 0.1 * self.f(s)


def main():
    torch.manual_seed(37)
    gen = torch.Generator().manual_seed(37)
    traj = simulate(300, 100, 1.2, gen)
    a, b = traj[:, :-1].reshape(-1, 2), traj[:, 1:].reshape(-1, 2)
    net = StepNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    losses = []
    for step in range(1, 501):
        j = torch.randint(len(a), (768,), generator=gen)
        loss = (net(a[j]) - b[j]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"step {step} mse {sum(losses[-50:]) / 50:.3e}", flush=True)
    fig, ax = plt.subplots(figsize=(4, 3))
    ax.semilogy(losses)
    fig.savefig(HERE / "losses.png")


if __name__ == "__main__":
    main()
