"""GAN on 1-d signals."""
import torch
import torch.nn as nn
import torch.nn.functional as F

Z, L = 32, 128


class Generator(nn.Module):
    def __init__(self, h=512):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(Z, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2),
                                 nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, L), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, h=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(L, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, 1))

    def forward(self, x):
        return self.net(x)[:, 0]


class GANTrainer:
    def __init__(self, seed=25):
        torch.manual_seed(seed)
        self.gen = torch.Generator().manual_seed(seed)
        self.G, self.D = Generator(), Discriminator()
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=2e-4, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.5, 0.99))
        t = torch.linspace(0, 1, L)
        f = torch.randint(1, 5, (8000, 1), generator=self.gen)
        self.real = 0.8 * torch.sin(6.283 * (f * t + torch.rand(8000, 1, generator=self.gen)))

    def noise(self, n):
        return torch.randn(n, Z, generator=self.gen)

    def d_step(self, real):
        with torch.no_grad():
            fake = self.G(self.noise(len(real)))
        loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def g_step(self, n):
        loss = F.softplus(-self.D(self.G(self.noise(n)))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def run(self, steps=300, bs=192):
        for s in range(steps):
            j = torch.randint(len(self.real), (bs,), generator=self.gen)
            d = self.d_step(self.real[j])
            g = self.g_step(bs)
            if s % 50 == 0:
                print(f"step {s} d {d:.4f} g {g:.4f}")


if __name__ == "__main__":
    GANTrainer().run()
