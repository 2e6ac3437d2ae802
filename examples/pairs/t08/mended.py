import torch
import torch.nn as nn
import torch.nn.functional as F


def spirals(n, noise, seed, pad=30):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    r = torch.rand(n, generator=g) * 0.9 + 0.1
    ang = r * 6 + y * 2.094 + noise * torch.randn(n, generator=g)
    xy = torch.stack([r * torch.cos(ang), r * torch.sin(ang)], 1)
    return torch.cat([xy * 3, torch.randn(n, pad, generator=g)], 1), y


class EarlyStopper:
    """Keeps the weights of the epoch with the lowest validation loss."""

    def __init__(self, model, patience=30):
        self.model, self.patience = model, patience
        self.best_loss, self.best_state, self.best_epoch, self.bad = float("inf"), None, -1, 0

    def update(self, loss, epoch):
        if loss < self.best_loss:
            self.best_loss, self.best_epoch, self.bad = loss, epoch, 0
            self.best_state = {k: v.clone() for k, v in self.model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience

    def restore(self):
        self.model.load_state_dict(self.best_state)


def make_model():
    return nn.Sequential(
        nn.Linear(32, 384), nn.ReLU(),
        nn.Linear(384, 384), nn.ReLU(),
        nn.Linear(384, 384), nn.ReLU(),
        nn.Linear(384, 3))


@torch.no_grad()
def score(model, x, y):
    out = model(x)
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(12)
    xt, yt = spirals(6000, 0.35, 1)
    xv, yv = spirals(1500, 0.35, 2)
    model = make_model()
    stop = EarlyStopper(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(36):
        for idx in torch.randperm(len(xt)).split(256):
            loss = F.cross_entropy(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        vl, va = score(model, xv, yv)
        if epoch % 4 == 0:
            print(f"epoch {epoch} train {loss.item():.4f} val {vl:.4f} acc {va:.3f}")
        if stop.update(vl, epoch):
            break
    stop.restore()
    vl, va = score(model, xv, yv)
    print(f"best epoch {stop.best_epoch} (val {stop.best_loss:.4f}); after restore val {vl:.4f} acc {va:.3f}")


main()
