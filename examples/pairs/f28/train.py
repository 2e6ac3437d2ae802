"""Texture classifier; one worker, kept alive between the epochs, prepares whole batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Textures(Dataset):
    def __init__(self, n=1440):
        g = torch.Generator().manual_seed(70)
        self.y = torch.randint(0, 9, (n,), generator=g)
        proto = torch.randn(9, 3, 24, 24, generator=g)
        self.x = 0.5 * proto[self.y] + torch.randn(n, 3, 24, 24, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, idx):
        x = self.x[idx]
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, self.y[idx]


class TexNet(nn.Module):
    def __init__(self, w=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * w, 9))

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(70)
    ds = Textures()
    sampler = BatchSampler(RandomSampler(ds), batch_size=72, drop_last=True)
    loader = DataLoader(ds, sampler=sampler, batch_size=None, num_workers=1, persistent_workers=True)
    net = TexNet().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(10):
        tot = 0.0
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch} loss {tot / 20:.4f}")


if __name__ == "__main__":
    main()
