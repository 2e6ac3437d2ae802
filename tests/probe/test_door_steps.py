"""Doors are called as PyTorch's own functions are: by position or by name."""

import torch
from safetensors.torch import save_file
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def test_backward_and_grad_take_their_tensors_by_name():
    weight = torch.ones(2, requires_grad=True)

    def train() -> None:
        for _ in range(3):
            (gradient,) = torch.autograd.grad(outputs=weight.square().sum(), inputs=weight)
            torch.autograd.backward(tensors=(weight * gradient).sum())

    assert observed(train).row("backward") > 0
    assert weight.grad is not None


def test_saves_take_what_and_where_by_name_in_any_order(tmp_path):
    tensors = {"w": torch.ones(2)}

    def train() -> None:
        torch.save(f=tmp_path / "by-name.pt", obj=tensors)
        save_file(tensors, filename=tmp_path / "by-name.safetensors")

    names = [save.path.rpartition("/")[2] for save in observed(train).saves]
    assert names[:1] == ["by-name.pt"]
    assert torch.load(tmp_path / "by-name.pt")["w"].tolist() == [1.0, 1.0]


def test_a_save_that_fails_is_none(tmp_path):
    def train() -> None:
        try:
            torch.save({}, tmp_path / "not" / "there.pt")
        except RuntimeError:
            return

    assert observed(train).saves == ()


def test_a_long_evaluation_is_looked_at_in_its_first_batches_only():
    model = nn.Linear(2, 1)
    data = DataLoader(TensorDataset(torch.ones(50, 2)))

    class Counts:
        passes = 0

        def passed(self, *_: object) -> None:
            self.passes += 1

    counts = Counts()

    def train() -> None:
        with torch.no_grad():
            for _ in range(2):
                for (x,) in data:
                    model(x)

    observed(train, prepare=lambda host: host.watchers.append(counts))
    assert counts.passes == 2 * 16
