import pytest
import torch
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, dataloader

from hotloop.probe.doors import Doors
from hotloop.probe.tape import Tape

STANDING = [
    (torch, "save"),
    (torch.autograd, "backward"),
    (torch.autograd, "grad"),
    (nn.Module, "__call__"),
    (DataLoader, "__init__"),
    (DataLoader, "__iter__"),
    (dataloader._BaseDataLoaderIter, "__next__"),
    (dataloader._BaseDataLoaderIter, "__init__"),
    (torch.optim.Optimizer, "__init__"),
    (torch.optim.lr_scheduler.LRScheduler, "__init__"),
    (torch.amp.GradScaler, "__init__"),
]


def now() -> list[object]:
    return [vars(owner)[name] for owner, name in STANDING]


def hooks() -> int:
    from torch.optim import optimizer

    return len(optimizer._global_optimizer_pre_hooks) + len(optimizer._global_optimizer_post_hooks)


def test_all_is_put_back():
    before, hooked = now(), hooks()
    during = []
    observed(lambda: during.extend([*now(), hooks() - hooked]))
    assert all(one is not other for one, other in zip(before, during, strict=False))
    assert during[-1] == 2
    assert now() == before
    assert hooks() == hooked


def test_what_stands_there_looks_as_it_did():
    names = [(owner, name, vars(owner)[name].__name__) for owner, name in STANDING]

    def train() -> None:
        for owner, name, old in names:
            assert vars(owner)[name].__name__ == old

    observed(train)


@pytest.mark.parametrize("own", [True, False])
def test_an_attribute_of_a_class_goes_back_to_where_it_was(own):
    class Above:
        name = "above"

    class Below(Above):
        if own:
            name = "below"

    doors = Doors(Tape(), None)
    assert doors.replace(Below, "name", "new") == ("below" if own else "above")
    doors.take_down()
    assert ("name" in vars(Below)) == own
    assert Below.name == ("below" if own else "above")


def test_the_first_fault_is_kept_and_the_script_goes_on():
    doors = Doors(Tape(), None)
    assert doors.guarded(lambda: 1 / 0) is None
    doors.quietly(lambda: [][0])
    assert isinstance(doors.fault, ZeroDivisionError)


def test_what_ends_a_script_passes():
    doors = Doors(Tape(), None)
    with pytest.raises(SystemExit):
        doors.guarded(exit_now)
    assert doors.fault is None


def exit_now() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("when", ["root", "updates", "iterating", "built_optimizer", "stepped"])
def test_a_fault_anywhere_changes_nothing_of_the_result(when):
    class Faulty:
        pass

    def fail(self, *args) -> None:
        raise LookupError(when)

    setattr(Faulty, when, fail)
    plain: list[torch.Tensor] = []
    weights(plain)
    seen: list[torch.Tensor] = []
    before = now()
    case = observed(lambda: weights(seen), prepare=lambda host: host.watchers.append(Faulty()))
    assert torch.equal(plain[0], seen[0])
    assert now() == before
    assert any(f"LookupError: {when}" in said for said in case.not_checked)


def weights(into: list[torch.Tensor]) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(12, 2)), batch_size=2, shuffle=True):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    into.append(model.weight.detach())
