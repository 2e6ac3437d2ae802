"""Dense prediction with large activations: micro batches of 12 pictures, 2 per update, to stay within a small memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Up(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.inp = nn.Conv2d(1, w, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for _ in range(3))
        self.up = nn.Conv2d(w, 4, 3, padding=1)

    def forward(self, x):
        h = F.relu(self.inp(x))
        for c in self.body:
            h = h + F.relu(c(h))
        return F.pixel_shuffle(self.up(h), 2)


def pictures(n, gen):
    low = torch.randn(n, 1, 12, 12, generator=gen)
    return F.interpolate(low, size=(96, 96), mode="bicubic", align_corners=False)


def psnr(a, b):
    mse = (a - b).pow(2).mean().item()
    return 10 * torch.log10(torch.tensor(b.abs().max().item() ** 2 / mse)).item()


def report(net, lo, hi):
    net.eval()
    with torch.no_grad():
        sharp = net(lo)
    plain = F.interpolate(lo, scale_factor=2, mode="bicubic", align_corners=False)
    print(f"psnr net {psnr(sharp, hi):.2f} bicubic {psnr(plain, hi):.2f}")


def main(micro=12, groups=2, updates=80):
    torch.manual_seed(19)
    gen = torch.Generator().manual_seed(19)
    hi = pictures(240, gen)
    lo = F.avg_pool2d(hi, 2)
    net = Up().to(memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for u in range(updates):
        opt.zero_grad()
        total = 0.0
        for _ in range(groups):
            j = torch.randint(len(hi), (micro,), generator=gen)
            loss = F.l1_loss(net(lo[j]), hi[j]) / groups
            loss.backward()
            total += loss.item()
        opt.step()
        if u % 10 == 0:
            print(f"update {u} l1 {total:.4f}")
    report(net, lo[:12], hi[:12])


main()
