"""Deep thin transformer for event sequences, with a monitor for gradients and weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Monitor:
    def __init__(self, model):
        self.model, self.rows = model, {}

    def grad_norm(self):
        total = 0.0
        for p in self.model.parameters():
            if p.grad is not None:
                total += p.grad.detach().norm(2).item() ** 2
        return total ** 0.5

    def update(self):
        for name, p in self.model.named_parameters():
            w, g = p.detach(), p.grad
            self.rows[name] = {
                "w_mean": w.mean().item(), "w_std": w.std().item(), "w_max": w.abs().max().item(),
                "g_mean": g.mean().item(), "g_std": g.std().item(), "ratio": (g.norm() / (w.norm() + 1e-8)).item(),
            }

    def worst(self):
        name = max(self.rows, key=lambda n: self.rows[n]["ratio"])
        return name, self.rows[name]["ratio"]


class EventModel(nn.Module):
    def __init__(self, events=40, d=48, depth=9):
        super().__init__()
        self.emb = nn.Embedding(events, d)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.02)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 96, 0.0, batch_first=True, norm_first=True) for _ in range(depth))
        self.out = nn.Linear(d, 3)

    def forward(self, x):
        h = self.emb(x) + self.pos
        for l in self.layers:
            h = l(h)
        return self.out(h.mean(1))


def events(n):
    g = torch.Generator().manual_seed(13)
    x = torch.randint(0, 40, (n, 32), generator=g)
    score = (x < 8).sum(1) - (x > 31).sum(1)
    return x, torch.bucketize(score, torch.tensor([-1, 1]))


def main(steps=200, bs=10):
    torch.manual_seed(13)
    x, y = events(4000)
    model = EventModel()
    mon = Monitor(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(0)
    for step in range(1, steps + 1):
        j = torch.randint(len(x), (bs,), generator=gen)
        loss = F.cross_entropy(model(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        norm = mon.grad_norm()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        mon.update()
        opt.step()
        if step % 40 == 0:
            name, ratio = mon.worst()
            print(f"step {step} loss {loss.item():.4f} grad norm {norm:.3f} largest ratio {ratio:.4f} in {name}")


if __name__ == "__main__":
    main()
