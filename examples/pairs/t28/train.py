"""Small CNN on synthetic digits; short epochs so that the curriculum can change the noise level."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n, noise):
        g = torch.Generator().manual_seed(0)
        self.proto = torch.rand(10, 1, 16, 16, generator=g)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.noise = noise
        self.eps = torch.randn(n, 1, 16, 16, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.proto[self.y[i]] + self.noise * self.eps[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 3, padding=1)
        self.c2 = nn.Conv2d(24, 48, 3, padding=1)
        self.fc = nn.Linear(48, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        return self.fc(F.relu(self.c2(x)).mean((2, 3)))


def run_epoch(net, opt, noise, seed):
    g = torch.Generator().manual_seed(seed)
    loader = DataLoader(Digits(160, noise), batch_size=32, shuffle=True, num_workers=4, generator=g)
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(55):
        noise = 0.1 + 0.01 * epoch
        loss = run_epoch(net, opt, noise, epoch)
        if epoch % 10 == 0:
            print(f"epoch {epoch} noise {noise:.2f} loss {loss:.4f}")


if __name__ == "__main__":
    main()
