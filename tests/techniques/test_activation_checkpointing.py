import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy

from hotloop.jobs.forecast.memory_forecast import Tracker
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.gpt import Gpt
from hotloop.techniques import activation_checkpointing as technique

MODES = ("full", "selective")
every_mode = pytest.mark.parametrize("mode", MODES)


@dataclass
class Model:
    """What the technique needs of a session."""

    model: nn.Module
    undo: dict[str, Any] = field(default_factory=dict)


class Block(nn.Module):
    """Counts its calls; `scale` comes as a keyword."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = nn.Sequential(nn.Linear(4, 4), *inner), 0

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        self.calls += 1
        return self.inner(x).sin() * scale  # type: ignore[no-any-return]


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, scale=0.5)
        return x


class Flagged(Block):
    gradient_checkpointing = True


def applied(model: nn.Module, mode: str) -> tuple[Model, int]:
    session = Model(model)
    return session, technique.apply(session, mode=mode)  # type: ignore[arg-type]


def read_back(session: Model) -> str | None:
    return technique.read_back(session)  # type: ignore[arg-type]


def calls(model: Stack) -> list[int]:
    return [block.calls for block in model.blocks]  # type: ignore[misc]


def kept(mode: str) -> int:
    """Bytes alive between the forward and the backward pass."""
    with Tracker() as tracker:
        model = Gpt(vocabulary=7, layers=4, heads=2, width=32, context=32, dropout=0.1).train()
        if mode != "plain":
            applied(model, mode)
        before = tracker.current
        loss = model(torch.zeros(8, 32, dtype=torch.int64)).sum()
        alive = tracker.current - before
        del loss
    return alive


def test_each_mode_keeps_less_for_the_backward_pass() -> None:
    plain, selective, full = kept("plain"), kept("selective"), kept("full")
    assert selective < 0.65 * plain
    assert full < 0.5 * selective


@every_mode
def test_a_block_runs_twice_when_it_trains_and_once_when_it_does_not(mode: str) -> None:
    model = Stack(Block(), Block())
    session, changed = applied(model, mode)
    assert changed == 2
    assert read_back(session) == f"{mode}: 2 of 2 blocks recompute"
    model(torch.ones(3, 4)).sum().backward()
    assert calls(model) == [2, 2]
    with torch.no_grad():
        model(torch.ones(3, 4))
    assert calls(model) == [3, 3]
    model.eval()
    model(torch.ones(3, 4, requires_grad=True)).sum().backward()
    assert calls(model) == [4, 4]


@every_mode
def test_names_and_gradients_stay_and_undo_leaves_nothing(mode: str) -> None:
    model = Stack(Block(), Block())
    names = list(model.state_dict())
    model(torch.ones(3, 4)).sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    session, _ = applied(model, mode)
    model(torch.ones(3, 4)).sum().backward()
    assert list(model.state_dict()) == names
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]
    session.undo["activation-checkpointing"]()
    assert all("forward" not in vars(block) for block in model.blocks)


@every_mode
def test_a_copy_recomputes_with_its_own_weights(mode: str) -> None:
    model = Stack(Block(), Block())
    applied(model, mode)
    other = copy.deepcopy(model)
    other(torch.ones(3, 4)).sum().backward()
    assert (calls(model), calls(other)) == ([0, 0], [2, 2])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in other.parameters())


@every_mode
def test_blocks_with_batch_norm_are_left_out(mode: str) -> None:
    mixed = Stack(Block(), Block(nn.BatchNorm1d(4)), Block(nn.LayerNorm(4)))
    session, changed = applied(mixed, mode)
    assert changed == 2
    assert read_back(session) == f"{mode}: 2 of 3 blocks recompute"
    assert applied(Stack(Block(nn.BatchNorm1d(4)), Block(nn.BatchNorm1d(4))), mode)[1] == 0


def test_a_model_without_repeated_blocks_is_left_alone() -> None:
    for model in (nn.Linear(2, 2), Stack(Block()), Stack(Block(), nn.Linear(4, 4))):
        session, changed = applied(model, "full")
        assert (changed, session.undo, read_back(session)) == (0, {}, None)


def test_off_switches_off_what_a_model_has_on_and_undo_puts_it_back() -> None:
    model = Stack(Flagged(), Flagged())
    session, changed = applied(model, "off")
    assert changed == 2
    assert read_back(session) == "off: no module of the model recomputes"
    assert not any(block.gradient_checkpointing for block in model.blocks)
    session.undo["activation-checkpointing"]()
    assert all(block.gradient_checkpointing for block in model.blocks)
    assert applied(Stack(Block(), Block()), "off")[1] == 0


@every_mode
def test_a_model_that_has_its_own_on_does_not_recompute_twice(mode: str) -> None:
    model = Stack(Flagged(), Flagged())
    session, changed = applied(model, mode)
    assert changed == 4
    assert not any(block.gradient_checkpointing for block in model.blocks)
    assert read_back(session) == f"{mode}: 2 of 2 blocks recompute"


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "kept"),
    [
        ("mm", 2, {}, True),
        ("addmm", 3, {}, True),
        ("bmm", 2, {}, False),  # written-out attention: T x T
        ("gelu", 1, {}, False),
        ("_scaled_dot_product_flash_attention_for_cpu", 3, {}, True),
        ("_scaled_dot_product_flash_attention_for_cpu", 3, {"dropout_p": 0.0}, True),
        ("_scaled_dot_product_flash_attention_for_cpu", 3, {"dropout_p": 0.1}, False),
        ("_scaled_dot_product_flash_attention", 3, {"dropout_p": 0.1}, False),
    ],
)
def test_products_are_kept_but_for_attention_that_draws(
    name: str, arguments: int, keywords: dict[str, float], kept: bool
) -> None:
    operator = getattr(torch.ops.aten, name).default
    policy = technique._policy(None, operator, *[torch.ones(1)] * arguments, **keywords)
    assert (policy is CheckpointPolicy.MUST_SAVE) is kept


def test_dropout_of_attention_is_also_seen_by_its_place() -> None:
    operator = torch.ops.aten._scaled_dot_product_flash_attention.default
    tensors = [torch.ones(1)] * 3
    assert technique._policy(None, operator, *tensors, 0.1) is CheckpointPolicy.PREFER_RECOMPUTE
    assert technique._policy(None, operator, *tensors, 0.0) is CheckpointPolicy.MUST_SAVE


@contextmanager
def seeded() -> Iterator[None]:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        yield


@every_mode
def test_the_random_stream_goes_on_as_without(mode: str) -> None:
    def drawn(model: nn.Module) -> float:
        with seeded():
            model(torch.ones(3, 4)).sum().backward()
            return float(torch.rand(()))

    model = Stack(Block(nn.Dropout(0.5)), Block(nn.Dropout(0.5)))
    plain = drawn(model)
    applied(model, mode)
    assert drawn(model) == plain


class Writing(nn.Module):
    """A block whose layers write into products: an adapter's sum, and an activation in place."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)
        self.act.inplace = kind != "dora"  # which needs the product itself
        if kind != "none":
            attach(self, AdapterConfig(kind=kind, rank=2, alpha=4.0))  # type: ignore[arg-type]
            for name, parameter in self.named_parameters():
                if "lora_B" in name:
                    nn.init.normal_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(x)))  # type: ignore[no-any-return]


class Row(nn.Module):
    """Such blocks in a row."""

    def __init__(self, count: int, kind: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Writing(kind) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def gradients(model: nn.Module) -> list[Tensor]:
    model(torch.linspace(-1, 1, 40).view(5, 8)).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return found


@every_mode
@pytest.mark.parametrize("kind", ["none", "lora", "dora"])
def test_a_result_that_a_layer_writes_into_is_computed_again(kind: str, mode: str) -> None:
    torch.manual_seed(0)
    model = Row(3, kind)
    plain = gradients(model)
    assert plain
    _, changed = applied(model, mode)
    assert changed == 3
    for mine, expected in zip(gradients(model), plain, strict=True):
        assert torch.equal(mine, expected)


def test_what_was_written_into_is_not_kept_for_the_backward_pass() -> None:
    def alive(mode: str) -> int:
        with Tracker() as tracker:
            model = Row(4, "lora")
            assert applied(model, mode)[1] == 4
            x = torch.zeros(64, 8)
            before = tracker.current
            loss = model(x).sum()
            kept = tracker.current - before
            del loss
        return kept

    lowered = 64 * 2 * 4  # bytes of x A^T, which nothing writes into; those of y are 64 * 8 * 4
    assert alive("selective") - alive("full") == 4 * 2 * lowered, "of 4 blocks of 2 layers"
