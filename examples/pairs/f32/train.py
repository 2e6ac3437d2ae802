"""Window attention with a learned relative bias (Swin-like), written out."""
import torch
import torch.nn as nn
import torch.nn.functional as F

WIN = 4


class WindowAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.scale = heads, (d // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.bias = nn.Parameter(torch.zeros((2 * WIN - 1) ** 2, heads))
        c = torch.stack(torch.meshgrid(torch.arange(WIN), torch.arange(WIN), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None] + WIN - 1).permute(1, 2, 0)
        self.register_buffer("index", rel[..., 0] * (2 * WIN - 1) + rel[..., 1])

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = (q * self.scale) @ k.transpose(-2, -1)
        s = s + self.bias[self.index].permute(2, 0, 1)
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))


def to_windows(x):
    b, h, w, d = x.shape
    return x.view(b, h // WIN, WIN, w // WIN, WIN, d).transpose(2, 3).reshape(-1, WIN * WIN, d)


def from_windows(x, b, h, w):
    d = x.shape[-1]
    return x.view(b, h // WIN, w // WIN, WIN, WIN, d).transpose(2, 3).reshape(b, h, w, d)


class SwinBlock(nn.Module):
    def __init__(self, d, shift):
        super().__init__()
        self.shift, self.att = shift, WindowAttention(d, 4)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, h, w, _ = x.shape
        y = torch.roll(self.n1(x), (-self.shift, -self.shift), (1, 2))
        y = from_windows(self.att(to_windows(y)), b, h, w)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, stride=4)
        self.b1, self.b2 = SwinBlock(d, 0), SwinBlock(d, 2)
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        return self.head(self.b2(self.b1(x)).mean((1, 2)))


if __name__ == "__main__":
    torch.manual_seed(4)
    proto = torch.randn(10, 3, 32, 32)
    y = torch.randint(0, 10, (2000,))
    x = 0.3 * proto[y] + torch.randn(2000, 3, 32, 32)
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
    for step in range(140):
        j = torch.randint(0, 2000, (32,))
        loss = F.cross_entropy(net(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print(step, round(loss.item(), 4))
