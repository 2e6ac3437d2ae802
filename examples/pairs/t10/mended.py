"""Next-value forecasting of power load with a recurrent net."""
import math
import torch
import torch.nn as nn


class RecurrentForecaster(nn.Module):
    def __init__(self, n_in, hidden, horizon):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.ModuleDict({k: nn.Linear(n_in + hidden, hidden) for k in ("i", "f", "g", "o")})
        self.out = nn.Linear(hidden, horizon)

    def forward(self, x):
        b, t, _ = x.shape
        h, c = torch.zeros(b, self.hidden), torch.zeros(b, self.hidden)
        w = torch.cat([self.gates[k].weight for k in "ifgo"])
        bias = torch.cat([self.gates[k].bias for k in "ifgo"])
        k = x.shape[2]
        o, h, c = torch.lstm(x, (h[None], c[None]), [w[:, :k].contiguous(), w[:, k:].contiguous(), bias, torch.zeros_like(bias)], True, 1, 0.0, self.training, False, True)
        return self.out(h[0])


def load_curve(n_days=110, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(n_days * 48, dtype=torch.float32)
    s = torch.sin(2 * math.pi * t / 48) + 0.4 * torch.sin(2 * math.pi * t / 336)
    s = s + 0.1 * torch.randn(len(t), generator=g).cumsum(0) / 10
    temp = torch.cos(2 * math.pi * t / 48 + 0.5) + 0.2 * torch.randn(len(t), generator=g)
    return torch.stack([s, temp, torch.sin(2 * math.pi * t / 48)], 1)


def windows(series, past, horizon):
    x = series.unfold(0, past, 1).permute(0, 2, 1)[:-horizon]
    y = series[past:, 0].unfold(0, horizon, 1)
    n = min(len(x), len(y))
    return x[:n].contiguous(), y[:n].contiguous()


def main():
    torch.manual_seed(3)
    series = load_curve()
    series = (series - series.mean(0)) / series.std(0)
    x, y = windows(series, past=96, horizon=12)
    cut = int(0.85 * len(x))
    model = RecurrentForecaster(3, 48, 12)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(3):
        model.train()
        losses = []
        for idx in torch.randperm(cut).split(64):
            loss = nn.functional.l1_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        with torch.no_grad():
            v = nn.functional.l1_loss(model(x[cut:]), y[cut:]).item()
        print(f"epoch {epoch} train {sum(losses) / len(losses):.4f} val {v:.4f}")


if __name__ == "__main__":
    main()
