"""What the doors mark, and that they are called as PyTorch's own functions are."""

import copy
import pickle

import pytest
import torch
from safetensors.torch import save_file
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.hooks.listener import Probe

DATA = TensorDataset(torch.arange(6.0).reshape(6, 1))


def marks(train) -> list[EventCode]:
    hosts = []
    observed(train, prepare=hosts.append)
    own = {EventCode.OWN, EventCode.OWN_END, EventCode.COMPILE, EventCode.COMPILE_END}
    return [EventCode(code) for _, code, _ in hosts[0].events.read() if code not in own]


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

    class Counts(Probe):
        passes = 0

        def after_forward(self, *_: object) -> None:
            self.passes += 1

    counts = Counts()

    def train() -> None:
        with torch.no_grad():
            for _ in range(2):
                for (x,) in data:
                    model(x)

    observed(train, prepare=lambda observer: observer.probes.append(counts))
    assert counts.passes == 2 * 16


def test_a_loaders_end_is_no_batch():
    assert marks(lambda: list(DataLoader(DATA, batch_size=3))) == [
        *(EventCode.ITERATE, EventCode.ITERATE_END),
        *(EventCode.NEXT, EventCode.BATCH) * 2,
        *(EventCode.NEXT, EventCode.EXHAUSTED),
        EventCode.END,
    ]


def test_a_sample_that_cannot_be_read_raises_as_ever():
    class Broken(TensorDataset):
        def __getitem__(self, index):
            raise KeyError("row 3")

    def train() -> None:
        with pytest.raises(KeyError, match="row 3"):
            next(iter(DataLoader(Broken(torch.zeros(2)))))

    assert marks(train)[-3:] == [EventCode.NEXT, EventCode.BATCH, EventCode.END]


def test_a_save_is_marked_from_its_begin_to_its_end(tmp_path):
    seen = marks(lambda: torch.save({}, tmp_path / "a.pt"))
    assert seen == [EventCode.SAVE, EventCode.SAVE_END, EventCode.END]


def test_loaders_and_optimizers_can_be_copied_and_carry_nothing_of_ours():
    def train() -> None:
        loader = DataLoader(DATA, batch_size=2)
        iterator = iter(loader)
        next(iterator)
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        again = pickle.loads(pickle.dumps(loader))
        assert len(list(again)) == len(list(copy.deepcopy(loader))) == 3
        assert copy.deepcopy(optimizer).state_dict() == optimizer.state_dict()
        for thing in (loader, iterator, model, optimizer):
            assert not any("hotloop" in name for name in vars(thing))

    assert observed(train).not_checked == ()


def test_an_optimizer_stepped_by_hand_and_by_closure_is_one_update_each():
    def train() -> None:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        optimizer.step()
        optimizer.step(lambda: parameter.sum())

    assert marks(train) == [EventCode.UPDATE, EventCode.UPDATE_END] * 2 + [EventCode.END]
