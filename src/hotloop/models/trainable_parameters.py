"""Says what a model trains, checks it against what was meant, and finds what never learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import adapted, saved_modules
from hotloop.models.adapters.lora import LoraLinear
from hotloop.models.adapters.multi_task import StackedLora
from hotloop.models.adapters.nf4_linear import elements
from hotloop.models.row_sharded import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

    from hotloop.session.ranks import ShardedOptimizer

__all__ = ["Gradients", "Trainable", "TrainedGroup", "check_trainable", "trainable"]

_MOST = 5  # names in a message
_LATER = (10, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedGroup:
    """Parameters that are trained for the same reason."""

    name: str
    names: tuple[str, ...]
    numbers: int  # elements of all of them

    def __str__(self) -> str:
        return f"{self.name} {self.numbers:,} in {len(self.names)} ({_some(self.names)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainable:
    """What a model trains."""

    groups: tuple[TrainedGroup, ...]  # adapters, head, rest: those that are there
    numbers: int  # elements of all parameters, frozen ones included

    @property
    def share(self) -> float:
        """Return the share of the model's numbers that is trained, 0 to 1."""
        return sum(group.numbers for group in self.groups) / max(1, self.numbers)

    def __str__(self) -> str:
        trained = sum(group.numbers for group in self.groups)
        what = "; ".join(str(group) for group in self.groups) or "nothing"
        return f"trains {trained:,} of {self.numbers:,} parameters ({self.share:.2%}): {what}"


def trainable(model: nn.Module, *, head: Sequence[str] = ()) -> Trainable:
    """Return what requires a gradient, as adapters, head (modules that `head` names) and rest.

    What shares a tensor is counted once. Raises ConfigError for a head that is not there.
    """
    kinds = {"adapters": _of_adapters(model), "head": _of_head(model, head)}
    names: dict[str, list[str]] = {"adapters": [], "head": [], "rest": []}
    numbers = dict.fromkeys(names, 0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = next((kind for kind, own in kinds.items() if id(parameter) in own), "rest")
            names[kind].append(name)
            numbers[kind] += parameter.numel()
    return Trainable(
        groups=tuple(
            TrainedGroup(name=kind, names=tuple(found), numbers=numbers[kind])
            for kind, found in names.items()
            if found
        ),
        numbers=sum(map(elements, model.parameters())),
    )


def check_trainable(
    model: nn.Module,
    *,
    means: Literal["adapters", "head", "all"],
    head: Sequence[str] = (),
) -> Trainable:
    """Return what is trained if it is what was meant: adapters and head, the head alone, or all.

    Raises ConfigError that names what is trained and should not be, and what is not and should.
    """
    found = trainable(model, head=head)
    named = dict(model.named_parameters())
    meant = set() if means != "adapters" else _of_adapters(model)
    meant |= _of_head(model, head)
    if means == "all":
        meant |= {id(parameter) for parameter in named.values()}
    if not meant:
        what = "no adapters" if means == "adapters" else "no head"
        raise ConfigError(f"training means {means}, and the model has {what}")
    wrong = [n for n, p in named.items() if p.requires_grad and id(p) not in meant]
    missing = [n for n, p in named.items() if not p.requires_grad and id(p) in meant]
    if means == "adapters" and not _of_adapters(model):
        raise ConfigError("training means adapters, and the model has none: only its head learns")
    parts = [f"{len(wrong)} are trained and should not be: {_some(wrong)}"] if wrong else []
    parts += [f"{len(missing)} should be trained and are not: {_some(missing)}"] if missing else []
    if parts:
        what = {"adapters": "adapters", "head": "the head alone", "all": "all parameters"}[means]
        also = f" and {', '.join(head)}" if head and means == "adapters" else ""
        raise ConfigError(f"of what training {what}{also} means, {'; '.join(parts)}")
    return found


def _of_adapters(model: nn.Module) -> set[int]:
    return {id(p) for layer in adapted(model).values() for p in layer.trained().values()}


def _of_head(model: nn.Module, head: Iterable[str]) -> set[int]:
    return {id(p) for module in saved_modules(model, head).values() for p in module.parameters()}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if names[_MOST:] else "")


class Gradients:
    """Watches the first steps for trainable parameters that never get a gradient.

    A of LoRA has none while B is 0, so it is judged only by steps before which B was not. Nothing
    waits for the device before `dead` is asked. Of a matrix, what is within float32's rounding of
    the largest gradient counts as none (queries of a decoder whose first token is all that is used:
    2e-9 of it): Adam would make steps of full size of that noise. Of A, which grows with B from 0,
    only 0 does, and of vectors: the softmax of attention takes no notice of a bias of its keys.
    In a stack the adapter of each task is judged by itself, by windows with rows of that task.
    """

    def __init__(self, model: nn.Module, sharded_optimizer: ShardedOptimizer | None = None) -> None:
        self._sharded = sharded_optimizer
        layers = adapted(model).values()
        behind = {id(each.lora_A): each for each in layers if isinstance(each, LoraLinear)}
        stacks = {
            id(parameter): (layer, dim)
            for layer in layers
            if isinstance(layer, StackedLora)
            for dim, parameter in enumerate((layer.lora_A, layer.lora_B))
        }
        self._shares = {id(layer.shares): layer.shares for layer, _ in stacks.values()}
        for shares in self._shares.values():
            shares.watch(next(model.parameters()).device)
        self._watched: dict[str, _Watched] = {}
        for name, each in model.named_parameters():
            if not each.requires_grad:
                continue
            is_matrix = (
                len(each.shape if sharded_optimizer is None else sharded_optimizer.shape(each)) > 1
            )
            b_OR = behind[id(each)].lora_B if id(each) in behind else None
            if id(each) not in stacks:
                self._watched[name] = _Watched(parameter=each, is_matrix=is_matrix, behind=b_OR)
                continue
            layer, dim = stacks[id(each)]
            for task, said in enumerate(layer.shares.tasks):
                self._watched[f"{name} of {said}"] = _Watched(
                    parameter=each,
                    is_matrix=is_matrix,
                    behind=b_OR,
                    stack=layer,
                    dim=dim,
                    task=task,
                )
        self._largest: dict[str, Tensor] = {}  # absolute value of the gradient, over all looks
        self._could: dict[str, Tensor] = {}  # of B's, for A; of a task's share in the rows, for B
        self.looks = 0

    @property
    def later(self) -> tuple[int, ...]:
        """Return after how many looks more is known: the rows of a task may come late."""
        return _LATER if self._shares else ()

    @torch.no_grad()
    def look(self) -> None:
        """Take in the gradients: after a window's last backward, before the update."""
        self.looks += 1
        for name, each in self._watched.items():
            seen = each.seen
            if each.behind is not None:
                self._keep(self._could, name, each.of(self._weight(each.behind), 1), seen)
            elif seen is not None:
                self._keep(self._could, name, seen, None)
            if (gradient := self._gradient(each.parameter)) is not None:
                self._keep(self._largest, name, each.of(gradient, each.dim), seen)
        for shares in self._shares.values():
            shares.forget()

    def _weight(self, parameter: Tensor) -> Tensor:
        return whole(parameter) if self._sharded is None else self._sharded.weight(parameter)

    def _gradient(self, parameter: Tensor) -> Tensor | None:
        if self._sharded is not None:
            return self._sharded.gradient(parameter)
        return None if parameter.grad is None else whole(parameter.grad)

    @staticmethod
    def _keep(kept: dict[str, Tensor], name: str, values: Tensor, seen: Tensor | None) -> None:
        largest = values.float().abs().amax()
        if seen is not None:  # of what a task's rows were not in, nothing counts
            largest = largest * (seen != 0)
        kept[name] = torch.maximum(kept[name], largest) if name in kept else largest

    def dead(self) -> list[str]:
        """Return the parameters whose gradient was None, or 0 but for rounding, in every look."""
        moved = _values(self._largest)
        could = _values(self._could)
        known = filter(math.isfinite, moved.values())  # else fp16 overflowed: that is no rounding
        noise = torch.finfo(torch.float32).eps * max(known, default=0.0)
        return [
            name
            for name, each in self._watched.items()
            if moved.get(name, 0.0) <= (noise if each.behind is None and each.is_matrix else 0.0)
            and could.get(name, 1.0)
            and self.looks
        ]

    def refuse_dead(self) -> None:
        """Raise ConfigError that names the dead parameters, if there are any."""
        if dead := self.dead():
            raise ConfigError(
                f"{len(dead)} of {len(self._watched)} trained parameters got no gradient in the "
                f"first {self.looks} steps, so they learn nothing: {_some(dead)}. Freeze them, "
                "leave their layers out of the targets, or find out why the loss does not see them"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Watched:
    """A parameter, or in a stack of adapters that of one task."""

    parameter: Tensor
    is_matrix: bool
    behind: Tensor | None  # B, of an A: while it is 0, A has no gradient
    stack: StackedLora | None = None
    dim: int = 0  # along which adapters stand one after the other: 0 in A, 1 in B
    task: int = 0

    @property
    def seen(self) -> Tensor | None:
        """The largest share that a row took of it, a scalar; None: all rows use it."""
        return None if self.stack is None else self.stack.shares.seen(self.task)

    def of(self, values: Tensor, dim: int) -> Tensor:
        if self.stack is None:
            return values
        rank = self.stack.adapter.rank
        return values.narrow(dim, self.task * rank, rank)


def _values(kept: dict[str, Tensor]) -> dict[str, float]:
    """Return the scalars, brought from the device in one go."""
    if not kept:
        return {}
    first = next(iter(kept.values())).device
    together = torch.stack([value.to(first) for value in kept.values()])
    return dict(zip(kept, together.tolist(), strict=True))
