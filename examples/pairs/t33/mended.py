"""Tumour grade from gene panels: few rows, strong dropout."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PanelNet(nn.Module):
    def __init__(self, genes=300, h=512, grades=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Dropout(0.3), nn.Linear(genes, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.6),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.6),
            nn.Linear(h, grades))

    def forward(self, x):
        return self.layers(x)


def patients(n, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)) / 17
    x = torch.randn(n, 300, generator=g)
    y = (x @ w * 2 + 0.9 * torch.randn(n, 4, generator=g)).argmax(1)
    return x, y


class Experiment:
    def __init__(self):
        torch.manual_seed(66)
        self.x, self.y = patients(1000, 1)
        self.xv, self.yv = patients(1500, 2)
        self.model = PanelNet()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=1e-2)

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            out = self.model(self.xv)
        return F.cross_entropy(out, self.yv).item(), (out.argmax(1) == self.yv).float().mean().item()

    def train(self, epochs=90, bs=100):
        self.model.train()
        best = (9.9, 0.0)
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for j in torch.randperm(len(self.x)).split(bs):
                loss = F.cross_entropy(self.model(self.x[j]), self.y[j])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(j)
            v, acc = self.validate()
            best = min(best, (v, acc))
            if epoch % 10 == 9:
                print(f"epoch {epoch + 1} train {total / len(self.x):.4f} val {v:.4f} acc {acc:.3f}")
        print(f"best val {best[0]:.4f} acc {best[1]:.3f}")


if __name__ == "__main__":
    Experiment().train()
