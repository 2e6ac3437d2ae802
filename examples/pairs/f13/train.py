"""CTR model: hashed categorical fields, large table with sparse gradients, dense cross network."""
import torch
import torch.nn as nn

torch.manual_seed(14)


class CrossLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, x0, x):
        return x0 * self.lin(x) + x


class CTR(nn.Module):
    def __init__(self, buckets=200_000, fields=6, dim=16):
        super().__init__()
        self.table = nn.Embedding(buckets, dim, sparse=True)
        nn.init.normal_(self.table.weight, std=0.02)
        d = fields * dim
        self.cross = nn.ModuleList([CrossLayer(d) for _ in range(2)])
        self.deep = nn.Sequential(nn.Linear(d, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, d))
        self.out = nn.Linear(2 * d, 1)

    def forward(self, ids):
        x0 = self.table(ids).flatten(1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], 1))[:, 0]


def impressions(n, fields=6, buckets=200_000):
    base = torch.arange(fields) * (buckets // fields)
    ids = (torch.rand(n, fields) ** 4 * (buckets // fields)).long() + base
    signal = torch.sin(ids.float() * 0.37)
    logit = signal[:, 0] * 2 + signal[:, 3] * signal[:, 4] - 0.5
    return ids, (torch.rand(n) < torch.sigmoid(logit)).float()


def main():
    ids, clicks = impressions(300_000)
    net = CTR()
    dense = [p for n, p in net.named_parameters() if not n.startswith("table")]
    opts = [torch.optim.SparseAdam([net.table.weight], lr=3e-3), torch.optim.Adam(dense, lr=1e-3, fused=True)]
    bs, run = 1024, 0.0
    for step in range(200):
        j = slice(step * bs, (step + 1) * bs)
        loss = nn.functional.binary_cross_entropy_with_logits(net(ids[j]), clicks[j])
        for o in opts:
            o.zero_grad()
        loss.backward()
        for o in opts:
            o.step()
        run += loss.item()
        if (step + 1) % 40 == 0:
            print(f"step {step + 1} logloss {run / 40:.4f}")
            run = 0.0


main()
