"""What Dynamo makes of a loop is the same with and without the doors."""

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.observing import observed
from torch import nn
from torch._dynamo.utils import counters

from hotloop.observe.observer import LEARNED, ScriptObserver

STEPS = 3 * LEARNED  # the doors learn, and then have learned
X = torch.linspace(-1, 1, 8).reshape(4, 2)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Leave no graphs and no counts for other tests."""
    yield
    torch._dynamo.reset()
    counters.clear()


class Net(nn.Module):
    """Modules in a module, so that there is an outermost one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
        self.last = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(x))


class Compiler:
    """A backend of Dynamo that compiles nothing and counts what it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return graph.forward


def loop(model: Callable, parameters, *, step: Callable | None = None) -> None:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    update = optimizer.step if step is None else torch.compile(optimizer.step, backend=step)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(X).square().mean().backward()
        update()


def wrapped(backend) -> None:
    net = Net()
    loop(torch.compile(net, backend=backend), net.parameters())


def in_place(backend) -> None:
    net = Net()
    net.compile(backend=backend)
    loop(net, net.parameters())


def in_the_middle(backend) -> None:
    net = Net()
    loop(net, net.parameters())
    loop(torch.compile(net, backend=backend), net.parameters())


def one_part(backend) -> None:
    net = Net()
    net.inner = torch.compile(net.inner, backend=backend)
    loop(net, net.parameters())


def whole_step(backend) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def step() -> None:
        net(X).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(STEPS):
        step()


def update(backend) -> None:
    net = Net()
    loop(net, net.parameters(), step=backend)


def counted(train: Callable, backend, around: Callable[[Callable], object]) -> tuple[int, ...]:
    """Return graphs and breaks."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    around(lambda: train(backend))
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


@pytest.mark.filterwarnings("ignore")  # Dynamo's own
@pytest.mark.parametrize("train", [wrapped, in_place, in_the_middle, one_part, whole_step, update])
def test_graphs_and_breaks_are_unchanged(train):
    plain, seen = Compiler(), Compiler()
    hosts: list[ScriptObserver] = []
    without = counted(train, plain, lambda run: run())
    with_doors = counted(train, seen, lambda run: observed(run, prepare=hosts.append))
    assert hosts[0].hooks.fault is None
    assert with_doors == without
    assert seen.graphs == plain.graphs > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_graphs_and_breaks_are_unchanged_with_a_real_backend(backend):
    for train in (wrapped, whole_step):
        without = counted(train, backend, lambda run: run())
        assert counted(train, backend, observed) == without


def test_a_compiled_model_is_one_outermost_module_and_compiling_has_a_row():
    torch._dynamo.reset()
    case = observed(lambda: wrapped(Compiler()))
    assert [model.compiled for model in case.models] == [True]
    assert case.row("compile") > 0
    assert case.steps.count == STEPS


def test_a_module_is_outermost_only_while_no_other_runs():
    def train() -> None:
        net, alone = Net(), nn.Linear(2, 1)
        for _ in range(2 * LEARNED):
            (net(X) + alone(X)).mean().backward()

    names = [(model.name, model.parameters) for model in observed(train).models]
    assert names == [("Net", 17), ("Linear", 3)]


def test_an_exception_in_a_forward_pass_leaves_the_doors_in_order():
    class Fails(Net):
        def forward(self, x):
            if x.sum() > 100:
                raise ValueError("too large")
            return super().forward(x)

    def train() -> None:
        net = Fails()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(2 * LEARNED):
            with pytest.raises(ValueError, match="too large"):
                net(X + 1000)
            net(X).mean().backward()
            optimizer.step()
            assert step >= 0

    case = observed(train)
    assert case.steps.count == 2 * LEARNED
    assert case.not_checked == ()
