"""A generator against a critic on tiny blobs: two optimizers, three backward calls a step.

Follows pytorch/examples dcgan/main.py @ 00b1e34c536d1cd312f561bc8bceea3e78e74071 (BSD-3-Clause)
in which parts of PyTorch it uses and in which order; the code is ours. Two forked loader workers.
"""

import argparse
import random
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, NOISE = 8, 6


class Blobs(Dataset):
    """One bright round spot a picture, its place drawn from the picture's number."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> torch.Tensor:
        place = random.Random(index)
        x, y = place.uniform(2, 6), place.uniform(2, 6)
        grid = torch.arange(SIDE)
        spot = -((grid - x) ** 2).view(1, -1) - ((grid - y) ** 2).view(-1, 1)
        return 2 * torch.exp(spot / 3).view(1, SIDE, SIDE) - 1


def start(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0, 0.05)


def nets() -> tuple[nn.Module, nn.Module]:
    generator = nn.Sequential(
        nn.ConvTranspose2d(NOISE, 16, 4),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )
    critic = nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4)
    )
    return generator.apply(start), critic.apply(start)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, default=Path("out"))
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    print(given.workers, "workers")
    random.seed(9)
    torch.manual_seed(9)
    loader = DataLoader(Blobs(), batch_size=32, shuffle=True, num_workers=given.workers)
    generator, critic = nets()
    print(generator, critic, sep="\n")
    rates = {"lr": 2e-3, "betas": (0.5, 0.999)}
    for_generator = torch.optim.Adam(generator.parameters(), **rates)
    for_critic = torch.optim.Adam(critic.parameters(), **rates)
    judge = nn.BCEWithLogitsLoss()
    fixed = torch.randn(4, NOISE, 1, 1)
    given.out.mkdir(exist_ok=True)
    for epoch in range(3):
        for real in loader:
            yes, no = torch.ones(len(real)), torch.zeros(len(real))
            made = generator(torch.randn(len(real), NOISE, 1, 1))
            for_critic.zero_grad()
            on_real = judge(critic(real).flatten(), yes)
            on_real.backward()
            on_made = judge(critic(made.detach()).flatten(), no)
            on_made.backward()
            for_critic.step()
            for_generator.zero_grad()
            fooled = judge(critic(made).flatten(), yes)
            fooled.backward()
            for_generator.step()
        print(f"epoch {epoch}: {on_real.item():.5f} {on_made.item():.5f} {fooled.item():.5f}")
        with torch.no_grad():
            torch.save(generator(fixed), given.out / f"made-{epoch}.pt")
        torch.save(generator.state_dict(), given.out / f"generator-{epoch}.pt")
        torch.save(critic.state_dict(), given.out / f"critic-{epoch}.pt")


if __name__ == "__main__":
    main()
