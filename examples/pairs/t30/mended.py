"""Speech-command-like classifier with gradient accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Settings:
    micro_batch = 48
    accumulate = 1
    lr = 1e-3
    updates = 260
    rows = 3000


class CommandNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(20, 64, 5, padding=2)
        self.mid = nn.Conv1d(64, 64, 5, stride=2, padding=2)
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, 12)

    def forward(self, x):
        h = F.relu(self.mid(F.relu(self.front(x))))
        return self.fc2(F.relu(self.fc1(h.mean(2))))


def commands(n):
    g = torch.Generator().manual_seed(17)
    y = torch.randint(0, 12, (n,), generator=g)
    t = torch.linspace(0, 1, 32)
    x = torch.sin((y[:, None, None] + 3) * 3 * t + torch.arange(20)[:, None] * 0.3)
    return x + 0.7 * torch.randn(n, 20, 32, generator=g), y


def main():
    s = Settings
    torch.manual_seed(17)
    x, y = commands(s.rows)
    net = CommandNet()
    opt = torch.optim.Adam(net.parameters(), lr=s.lr)
    gen = torch.Generator().manual_seed(1)
    for update in range(s.updates):
        idx = torch.randint(0, s.rows, (s.micro_batch * s.accumulate,), generator=gen)
        opt.zero_grad()
        run = 0.0
        for part in idx.split(s.micro_batch):
            loss = F.cross_entropy(net(x[part]), y[part], reduction="sum") / len(idx)
            loss.backward()
            run += loss.item()
        opt.step()
        if update % 40 == 0:
            print(f"update {update} loss {run:.4f}")


if __name__ == "__main__":
    main()
