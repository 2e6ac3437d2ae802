"""Protein stretch classifier. Stretches are cut to 100 residues, so nearly all rows are full."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_LEN = 100
RES = 22


def stretches(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    x = torch.randint(2, RES, (n, MAX_LEN), generator=g)
    motif = torch.randint(2, RES, (6, 5), generator=torch.Generator().manual_seed(1))
    at = torch.randint(0, 85, (n,), generator=g)
    for k in range(5):
        x[torch.arange(n), at + k] = motif[y, k]
    lengths = torch.where(torch.rand(n, generator=g) < 0.9, MAX_LEN, torch.randint(92, MAX_LEN, (n,), generator=g))
    x[torch.arange(MAX_LEN) >= lengths[:, None]] = 0
    return x, y


class ProteinNet(nn.Module):
    def __init__(self, d=80, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(RES, d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, heads, 160, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 6)

    def forward(self, x):
        pad = x == 0
        h = self.enc(self.emb(x) + self.pos, src_key_padding_mask=pad)
        return self.cls(h.masked_fill(pad.unsqueeze(2), -1e4).amax(1))


class Training:
    def __init__(self):
        torch.manual_seed(33)
        self.x, self.y = stretches(2560, 33)
        self.net = ProteinNet()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)

    def step(self, idx):
        loss = F.cross_entropy(self.net(self.x[idx]), self.y[idx])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def run(self, epochs):
        for e in range(epochs):
            ls = [self.step(idx) for idx in torch.randperm(len(self.x)).split(32)]
            print(f"epoch {e} loss {sum(ls) / len(ls):.4f} last {ls[-1]:.4f}")


Training().run(2)
