"""Score model (denoising diffusion on 2-channel strips) with averaged weights and the gradient norm in the log."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.t = nn.Linear(16, c)
        self.i = nn.Conv1d(2, c, 5, padding=2)
        self.m = nn.ModuleList(nn.Conv1d(c, c, 5, padding=2) for _ in range(3))
        self.o = nn.Conv1d(c, 2, 5, padding=2)
        self.register_buffer("freq", 2.0 ** torch.arange(8))

    def forward(self, x, t):
        e = t[:, None] * self.freq
        e = self.t(torch.cat([e.sin(), e.cos()], 1)).unsqueeze(2)
        h = F.silu(self.i(x) + e)
        for m in self.m:
            h = h + F.silu(m(h))
        return self.o(h)


class Ema:
    def __init__(self, params, decay=0.995):
        self.params, self.decay = list(params), decay
        self.shadow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.shadow, self.params, 1 - self.decay)


def strips(n, gen):
    t = torch.linspace(0, 1, 64)
    f = 1 + 3 * torch.rand(n, 1, generator=gen)
    p = 6.283 * torch.rand(n, 1, generator=gen)
    return torch.stack([torch.sin(6.283 * f * t + p), torch.cos(6.283 * f * t + p)], 1)


def main():
    torch.manual_seed(35)
    gen = torch.Generator().manual_seed(35)
    data = strips(4000, gen)
    net = Denoiser()
    ema = Ema(net.parameters())
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    for it in range(1, 261):
        x = data[torch.randint(len(data), (64,), generator=gen)]
        t = torch.rand(64, generator=gen)
        a = torch.cos(t * math.pi / 2)[:, None, None]
        noise = torch.randn(x.shape, generator=gen)
        loss = F.mse_loss(net(a * x + (1 - a * a).sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        gn = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        ema.update()
        if it % 30 == 0:
            print(f"it {it} loss {loss.item():.4f} gnorm {gn.item():.4f}")


if __name__ == "__main__":
    main()
