# satellite tiles, 6 land-use classes
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "data.npy")
LAB = os.path.join(HERE, "data_labels.npy")


def make_data():
    rng = np.random.RandomState(3)
    y = rng.randint(0, 6, 1536)
    base = rng.randn(6, 4, 32, 32)
    x = base[y] * 0.5 + rng.randn(1536, 4, 32, 32)
    np.save(FILE, x.astype(np.float32))
    np.save(LAB, y.astype(np.int64))


class Tiles(Dataset):
    """Tiles with a random flip."""

    def __init__(self):
        self.x = torch.from_numpy(np.load(FILE))
        self.y = torch.from_numpy(np.load(LAB))
        self.g = torch.Generator().manual_seed(11)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        tile = self.x[i]
        if torch.rand((), generator=self.g) < 0.5:
            tile = tile.flip(-1)
        return tile, self.y[i]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


class TileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(block(4, 32), block(32, 48), block(48, 64))
        self.head = nn.Linear(64, 6)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(-1, -2)))


class Trainer:
    def __init__(self, model, loader, lr):
        self.model, self.loader = model, loader
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.crit = nn.CrossEntropyLoss()
        self.step = 0

    def fit(self, epochs):
        for ep in range(epochs):
            s = 0.0
            for x, y in self.loader:
                self.opt.zero_grad()
                loss = self.crit(self.model(x), y)
                loss.backward()
                self.opt.step()
                self.step += 1
                s += loss.item()
            print("epoch", ep, "mean loss", round(s / len(self.loader), 4), "steps", self.step)


if __name__ == "__main__":
    torch.manual_seed(5)
    if not os.path.exists(FILE):
        make_data()
    dl = DataLoader(Tiles(), batch_size=64, shuffle=True)
    Trainer(TileNet().to(memory_format=torch.channels_last), dl, 0.02).fit(4)
