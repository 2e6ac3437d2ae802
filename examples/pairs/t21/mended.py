"""Molecule property regression from SMILES-like strings; transformer encoder with padding mask."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

MAX_LEN = 128
ALPHABET = 34


def molecules(n, seed):
    g = torch.Generator().manual_seed(seed)
    lengths = (14 + 22 * torch.rand(n, generator=g) ** 2).long()
    out = []
    for l in lengths.tolist():
        ids = torch.randint(1, ALPHABET, (l,), generator=g)
        target = (ids == 3).sum() * 0.5 - (ids == 7).sum() * 0.3 + 0.02 * l
        out.append((ids, target.float()))
    return out


def collate(batch):
    ids, y = zip(*batch)
    x = pad_sequence(ids, batch_first=True)
    return x, torch.stack(y)


class MolEncoder(nn.Module):
    def __init__(self, d=64, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(ALPHABET, d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, heads, 128, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        pad = x == 0
        h = self.enc(self.emb(x) + self.pos[:x.shape[1]], src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(2).float()
        return self.out((h * keep).sum(1) / keep.sum(1))[:, 0]


def main():
    torch.manual_seed(30)
    data = molecules(1200, 30)
    loader = DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate)
    model = MolEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(4):
        tot = 0.0
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch} mse {tot / len(loader):.4f}")


if __name__ == "__main__":
    main()
