"""Convolutional GAN on 16x16 blobs (hinge loss)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def weights(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.05)


netG = nn.Sequential(
    nn.Linear(24, 64 * 16), nn.ReLU(), nn.Unflatten(1, (64, 4, 4)),
    nn.ConvTranspose2d(64, 48, 4, 2, 1), nn.ReLU(),
    nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(),
    nn.Conv2d(24, 1, 3, 1, 1), nn.Tanh())
netD = nn.Sequential(
    nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.1),
    nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.1),
    nn.Flatten(), nn.Linear(64 * 16, 1))


def blobs(n, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=gen) - 0.5
    s = 0.1 + 0.15 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) / s)
    return (2 * img - 1).unsqueeze(1)


def main():
    torch.manual_seed(51)
    gen = torch.Generator().manual_seed(51)
    netG.apply(weights)
    netD.apply(weights)
    netG.to(memory_format=torch.channels_last)
    netD.to(memory_format=torch.channels_last)
    optD = torch.optim.Adam(netD.parameters(), lr=4e-4, betas=(0.0, 0.9))
    optG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0.0, 0.9))
    data = blobs(6000, gen)
    for it in range(220):
        real = data[torch.randint(len(data), (128,), generator=gen)]
        fake = netG(torch.randn(128, 24, generator=gen))

        netD.requires_grad_(True)
        optD.zero_grad()
        out = netD(torch.cat([real, fake.detach()]))
        errD = F.relu(1 - out[:128]).mean() + F.relu(1 + out[128:]).mean()
        errD.backward()
        optD.step()

        netD.requires_grad_(False)
        optG.zero_grad()
        errG = -netD(fake).mean()
        errG.backward()
        optG.step()
        if it % 30 == 0:
            print(f"[{it}] D {errD.item():.4f} G {errG.item():.4f}")


main()
