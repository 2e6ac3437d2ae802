# multi-task model for shop sessions: click, basket, dwell time, return
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(77)
TASKS = {"click": 1, "basket": 1, "dwell": 1, "returns": 3}


class SharedNet(nn.Module):
    def __init__(self, d_in=80, width=400, depth=4):
        super().__init__()
        mods = []
        for i in range(depth):
            mods += [nn.Linear(d_in if i == 0 else width, width), nn.LayerNorm(width), nn.GELU()]
        self.trunk = nn.Sequential(*mods)
        self.heads = nn.ModuleDict({t: nn.Linear(width, k) for t, k in TASKS.items()})

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h) for t, head in self.heads.items()}


class Sessions:
    def __init__(self, n=12000):
        self.x = torch.randn(n, 80)
        w = torch.randn(80, 6) / 9
        s = torch.tanh(self.x @ w)
        self.y = {
            "click": (s[:, 0] > 0).float(),
            "basket": (s[:, 0] + s[:, 1] > 0.2).float(),
            "dwell": s[:, 2] * 2,
            "returns": s[:, 3:].argmax(1),
        }

    def batches(self, bs):
        for idx in torch.randperm(len(self.x)).split(bs):
            yield self.x[idx], {t: v[idx] for t, v in self.y.items()}


def compute_losses(out, y):
    return {
        "click": F.binary_cross_entropy_with_logits(out["click"][:, 0], y["click"]),
        "basket": F.binary_cross_entropy_with_logits(out["basket"][:, 0], y["basket"]),
        "dwell": 0.5 * F.mse_loss(out["dwell"][:, 0], y["dwell"]),
        "returns": F.cross_entropy(out["returns"], y["returns"]),
    }


def main(epochs=5, bs=256):
    data = Sessions()
    net = SharedNet()
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4)
    for epoch in range(epochs):
        sums = dict.fromkeys(TASKS, 0.0)
        k = 0
        for x, y in data.batches(bs):
            opt.zero_grad()
            losses = compute_losses(net(x), y)
            for name, value in losses.items():
                value.backward(retain_graph=True)
                sums[name] += value.item()
            opt.step()
            k += 1
        print("epoch", epoch, {n: round(v / k, 4) for n, v in sums.items()})


if __name__ == "__main__":
    main()
