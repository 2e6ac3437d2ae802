"""Audio event tagger, multi-label. A checkpoint goes to disk once per epoch."""
import pathlib
import torch
import torch.nn as nn
import torch.nn.functional as F

OUT = pathlib.Path(__file__).parent / "ckpt"


class Tagger(nn.Module):
    def __init__(self, tags=12):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 32, 9, stride=4, padding=4), nn.ReLU(),
            nn.Conv1d(32, 64, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2, padding=2), nn.ReLU())
        self.gru = nn.GRU(64, 64, batch_first=True)
        self.out = nn.Linear(64, tags)

    def forward(self, w):
        h = self.conv(w.unsqueeze(1)).transpose(1, 2)
        o, _ = self.gru(h)
        return self.out(o.mean(1))


def clips(n, gen):
    y = (torch.rand(n, 12, generator=gen) < 0.25).float()
    t = torch.linspace(0, 1, 1024)
    bank = torch.sin(2 * torch.pi * (10 + 12 * torch.arange(12))[:, None] * t)
    return y @ bank + 0.5 * torch.randn(n, 1024, generator=gen), y


def checkpoint(epoch, model, opt):
    OUT.mkdir(exist_ok=True)
    torch.save({"epoch": epoch, "model": model.state_dict(), "opt": opt.state_dict()}, OUT / "latest.pt")


def main():
    torch.manual_seed(15)
    gen = torch.Generator().manual_seed(15)
    x, y = clips(1600, gen)
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(7):
        tot = 0.0
        for j in torch.randperm(len(x), generator=gen).split(64):
            loss = F.binary_cross_entropy_with_logits(model(x[j]), y[j])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            tot += loss.item()
        checkpoint(epoch, model, opt)
        print(f"epoch {epoch} bce {tot / 25:.4f} saved")


if __name__ == "__main__":
    main()
