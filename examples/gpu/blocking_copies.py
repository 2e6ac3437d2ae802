"""Planted for a GPU: blocks of rows are pinned, and the host waits for each copy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Blocks(Dataset):
    def __init__(self):
        self.rows = torch.randn(64, 2048, 1024)
        self.labels = self.rows[..., :64].argmax(-1)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.rows[index], self.labels[index]


if __name__ == "__main__":
    loader = DataLoader(Blocks(), batch_size=None, shuffle=True, pin_memory=True)
    layers = [nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(4)]
    model = nn.Sequential(*layers, nn.Linear(1024, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(200):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()  # FAULT: D16
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
