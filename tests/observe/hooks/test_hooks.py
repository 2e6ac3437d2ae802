import gc
import pickle
import random

import pytest
import torch
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, dataloader

from hotloop.observe.hooks.event_buffer import EventBuffer
from hotloop.observe.hooks.hooks import Hooks
from hotloop.observe.hooks.listener import Probe

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

    hooks = Hooks(EventBuffer(), None)
    assert hooks.replace(Below, "name", "new") == ("below" if own else "above")
    hooks.remove_all()
    assert ("name" in vars(Below)) == own
    assert Below.name == ("below" if own else "above")


def test_the_first_fault_is_kept_and_the_script_goes_on():
    hooks = Hooks(EventBuffer(), None)
    assert hooks.guarded(lambda: 1 / 0) is None
    hooks.quietly(lambda: [][0])
    assert isinstance(hooks.fault, ZeroDivisionError)


def test_what_ends_a_script_passes():
    hooks = Hooks(EventBuffer(), None)
    with pytest.raises(SystemExit):
        hooks.guarded(exit_now)
    assert hooks.fault is None


def exit_now() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "when",
    [
        "on_root_module",
        "on_optimizer_first_step",
        "on_iterator_created",
        "on_optimizer_built",
        "after_step",
    ],
)
def test_a_fault_anywhere_changes_nothing_of_the_result(when):
    class Faulty(Probe):
        pass

    def fail(self, *args) -> None:
        raise LookupError(when)

    setattr(Faulty, when, fail)
    plain: list[torch.Tensor] = []
    weights(plain)
    seen: list[torch.Tensor] = []
    before = now()
    case = observed(lambda: weights(seen), prepare=lambda it: it.probes.append(Faulty()))
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


def test_what_the_script_put_there_since_stays_and_ours_behind_it_does_nothing(monkeypatch):
    seen = []

    def train() -> None:
        ours = nn.Module.__call__

        def theirs(self: nn.Module, *args: object) -> object:
            seen.append(self)
            return ours(self, *args)

        monkeypatch.setattr(nn.Module, "__call__", theirs)

    old, hosts = nn.Module.__call__, []
    observed(train, prepare=hosts.append)
    assert nn.Module.__call__ is not old
    hosts[0].events.marks.clear()
    nn.Linear(2, 1)(torch.ones(1, 2))
    assert len(seen) == 1
    assert hosts[0].events.marks == []


def test_functions_are_pickled_as_before():
    functions = (torch.save, torch.set_num_threads, torch.autograd.backward, open)
    before = [pickle.dumps(function) for function in functions]
    during = []

    def train() -> None:
        for name in ("save", "set_num_threads"):
            assert pickle.loads(pickle.dumps(getattr(torch, name))) is getattr(torch, name)
        pickle.dumps(torch.autograd.backward)
        during.append(pickle.dumps(random.seed))
        during.append(pickle.dumps(open))

    observed(train)
    assert len(during) == 2
    assert [pickle.dumps(function) for function in functions] == before


def test_the_number_of_what_is_gone_is_not_anothers():
    hooks = Hooks(EventBuffer(), None)
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    hooks.number_of(optimizer, lambda thing: 3)
    assert list(hooks._numbers.values()) == [3]
    del optimizer
    gc.collect()
    assert hooks._numbers == {}


def test_a_new_model_arrives_though_it_has_the_id_of_another():
    told = []

    class Listener:
        def before_first_forward(self, module: nn.Module) -> None:
            told.append(id(module))

    hooks = Hooks(EventBuffer(), Listener())
    for _ in range(40):
        module = nn.Linear(1, 1)
        hooks.first_forward(module)
        hooks.first_forward(module)
        del module
    assert len(told) == 40
    assert len(set(told)) < 40  # or the test shows nothing


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_finds_autograd_behind_a_door():
    def train() -> None:
        @torch.jit.script
        def slope(x: torch.Tensor):
            return torch.autograd.grad([(x * x).sum()], [x])

        x = torch.ones(2, requires_grad=True)
        assert slope(x)[0].tolist() == [2.0, 2.0]

    observed(train)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_model_can_be_traced_while_it_is_looked_at():
    def train() -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        torch.jit.trace(model, torch.ones(1, 2))

    observed(train)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_an_error_in_a_traced_model_is_the_scripts_and_raised_once():
    runs = []

    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            runs.append(x)
            raise ValueError("the script's own")

    def train() -> None:
        with pytest.raises(ValueError, match="the script's own"):
            torch.jit.trace(Fails(), torch.ones(1, 2))

    hosts = []
    observed(train, prepare=hosts.append)
    assert len(runs) == 1
    assert hosts[0].hooks.fault is None
