"""Segmentation of cell images with gradient accumulation (4 micro batches per update)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU())


class MiniUNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.e1, self.e2, self.mid = conv(1, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.d2, self.d1 = conv(6 * w, 2 * w), conv(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.d1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.out(a)[:, 0]


def cells(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    mask = torch.zeros(n, size, size)
    for _ in range(4):
        cy, cx = torch.randint(0, size, (2, n, 1, 1), generator=gen)
        r = torch.randint(3, 7, (n, 1, 1), generator=gen)
        mask = torch.maximum(mask, (((yy - cy) ** 2 + (xx - cx) ** 2) < r ** 2).float())
    img = mask * 0.8 + 0.5 * torch.randn(n, size, size, generator=gen)
    return img.unsqueeze(1), mask


class Loop:
    accumulate = 4
    micro = 16

    def __init__(self):
        torch.manual_seed(20)
        self.gen = torch.Generator().manual_seed(20)
        self.net = MiniUNet().to(memory_format=torch.channels_last)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3)
        self.x, self.y = cells(512, 32, self.gen)

    def epoch(self):
        parts = torch.randperm(len(self.x), generator=self.gen).split(self.micro)
        total = 0.0
        for k, idx in enumerate(parts, 1):
            loss = F.binary_cross_entropy_with_logits(self.net(self.x[idx]), self.y[idx])
            (loss / self.accumulate).backward()
            total += loss.item()
            if k % self.accumulate == 0:
                self.opt.step()
                self.opt.zero_grad(set_to_none=True)
        return total / len(parts)


if __name__ == "__main__":
    loop = Loop()
    for e in range(10):
        print(f"epoch {e} bce {loop.epoch():.4f}")
