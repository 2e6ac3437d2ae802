"""Two conflicting tasks with projected gradients (Yu et al. 2020, gradient surgery)."""
import torch
from torch import nn
import torch.nn.functional as F


class Trunk(nn.Module):
    def __init__(self, d, w):
        super().__init__()
        self.l1 = nn.Linear(d, w)
        self.l2 = nn.Linear(w, w)
        self.l3 = nn.Linear(w, w)

    def forward(self, x):
        x = F.elu(self.l1(x))
        x = F.elu(self.l2(x))
        return F.elu(self.l3(x))


class PCGrad:
    def __init__(self, trunk):
        self.params = list(trunk.parameters())
        self.conflicts = 0

    def combine(self, losses):
        flat = []
        for loss in losses:
            g = torch.autograd.grad(loss, self.params, retain_graph=True)
            flat.append(torch.cat([t.reshape(-1) for t in g]))
        a, b = flat
        dot = torch.dot(a, b)
        if dot < 0:
            self.conflicts += 1
            a, b = a - dot / b.dot(b) * b, b - dot / a.dot(a) * a
        total, i = a + b, 0
        for p in self.params:
            p.grad = total[i:i + p.numel()].view_as(p)
            i += p.numel()


def train():
    torch.manual_seed(9)
    x = torch.randn(20000, 60)
    w = torch.randn(60, 16) / 8
    f = torch.tanh(x @ w)
    targets = [f[:, :8].sum(1), -0.6 * f[:, :8].sum(1) + f[:, 8:].sum(1)]
    trunk = Trunk(60, 256)
    heads = nn.ModuleList([nn.Linear(256, 1), nn.Linear(256, 1)])
    surgery = PCGrad(trunk)
    opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.02)
    step = 0
    for epoch in range(15):
        for idx in torch.randperm(len(x)).split(500):
            h = trunk(x[idx])
            losses = [F.mse_loss(head(h)[:, 0], t[idx]) for head, t in zip(heads, targets)]
            opt.zero_grad()
            surgery.combine(losses)
            hd = h.detach()
            sum(F.mse_loss(head(hd)[:, 0], t[idx]) for head, t in zip(heads, targets)).backward()
            opt.step()
            step += 1
        print(f"epoch {epoch} losses {[round(v.item(), 4) for v in losses]} conflicts {surgery.conflicts}/{step}")


if __name__ == "__main__":
    train()
