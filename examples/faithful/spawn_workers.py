"""Loader workers started by spawn that unpickle classes and functions of this very file.

Corner: `__main__` must be found again by the child, as `__mp_main__`; persistent workers.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


@dataclass
class Sample:
    """One row, and where it was made."""

    x: torch.Tensor
    made_in: str
    worker: int


@dataclass
class Rows(Dataset):
    """Squares of whole numbers."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        noise = torch.rand(())  # from the worker's own seed, so from base_seed
        return Sample(torch.tensor([index / 10, noise]), __name__, get_worker_info().id)


def collate(samples: list[Sample]) -> tuple[torch.Tensor, set[str], set[int]]:
    x = torch.stack([sample.x for sample in samples])
    return x, {sample.made_in for sample in samples}, {sample.worker for sample in samples}


def main() -> None:
    torch.manual_seed(4)
    loader = DataLoader(
        Rows(24),
        batch_size=4,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="spawn",
        collate_fn=collate,
    )
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x, made_in, workers in loader:
            optimizer.zero_grad()
            loss = (model(x) - x[:, :1] ** 2).square().mean()
            loss.backward()
            optimizer.step()
            print(epoch, made_in, workers, loss.item())
    Path("out").mkdir(exist_ok=True)
    torch.save(model.state_dict(), "out/spawn.pt")


if __name__ == "__main__":
    main()
