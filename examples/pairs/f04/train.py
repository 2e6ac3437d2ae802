"""Linear probe with colour jitter, shifts and noise on top of a fixed encoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = nn.Conv2d(width, width * 2, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(width * 2, width * 2, 3, stride=2, padding=1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(self.down1(x))
        x = F.relu(self.down2(x))
        return x.mean((2, 3))


def jitter(x, gen):
    b = x.shape[0]
    gain = 1 + 0.4 * (torch.rand(b, 3, 1, 1, generator=gen) - 0.5)
    x = x * gain
    dx = int(torch.randint(-4, 5, (1,), generator=gen))
    dy = int(torch.randint(-4, 5, (1,), generator=gen))
    return torch.roll(x, (dy, dx), (2, 3))


def main():
    torch.manual_seed(8)
    g = torch.Generator().manual_seed(80)
    n, k = 1200, 10
    proto = torch.randn(k, 3, 40, 40, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    x = proto[y] + 0.8 * torch.randn(n, 3, 40, 40, generator=g)

    enc = Encoder().eval().to(memory_format=torch.channels_last)
    enc.requires_grad_(False)
    head = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, k))
    opt = torch.optim.SGD(head.parameters(), lr=0.3, momentum=0.9)
    step = 0
    for epoch in range(18):
        for idx in torch.randperm(n, generator=g).split(80):
            with torch.no_grad():
                z = enc(jitter(x[idx], g))
            loss = F.cross_entropy(head(z), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 40 == 0:
                print(f"step {step:4d} loss {loss.item():.4f}")
    print("probe trained", step, "steps")


if __name__ == "__main__":
    main()
