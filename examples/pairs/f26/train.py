"""Adapter tuning by forward hooks: the low-rank update is added to the output of the frozen layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Adapter(nn.Module):
    def __init__(self, d_in, d_out, r):
        super().__init__()
        self.down = nn.Linear(d_in, r, bias=False)
        self.up = nn.Linear(r, d_out, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.up(self.down(x))


class Seq(nn.Module):
    def __init__(self, vocab=150, d=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.conv1 = nn.Conv1d(d, d, 3, padding=1)
        self.fc1 = nn.Linear(d, d)
        self.conv2 = nn.Conv1d(d, d, 3, padding=1)
        self.fc2 = nn.Linear(d, d)
        self.head = nn.Linear(d, 4)

    def forward(self, ids):
        x = self.emb(ids)
        x = torch.relu(self.fc1(x))
        x = x + torch.relu(self.conv1(x.transpose(1, 2))).transpose(1, 2)
        x = x + torch.relu(self.fc2(x))
        x = x + torch.relu(self.conv2(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x.mean(1))


def attach(model, r=8):
    model.requires_grad_(False)
    model.adapters = nn.ModuleList()
    for layer in (model.fc1, model.fc2):
        ad = Adapter(layer.in_features, layer.out_features, r)
        model.adapters.append(ad)
        layer.register_forward_hook(lambda m, inp, out, ad=ad: out + ad(inp[0]))
    for p in model.head.parameters():
        p.requires_grad = True


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 150, (n, 32), generator=g)
    s = torch.sin(ids.float()).sum(1)
    return ids, torch.bucketize(s, torch.tensor([-2.5, 0.0, 2.5]))


def main():
    torch.manual_seed(61)
    net = Seq()
    attach(net)
    ids, y = rows(6000, 3)
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    for epoch in range(5):
        for j in torch.randperm(len(ids)).split(80):
            loss = F.cross_entropy(net(ids[j]), y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} |up| {net.adapters[0].up.weight.norm().item():.3f}")


main()
