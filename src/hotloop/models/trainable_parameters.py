"""Count what a model trains, check it against the intention, find parameters that never learn."""

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
    """The parameters that a model trains."""

    groups: tuple[TrainedGroup, ...]  # adapters, head, rest, if they are not empty
    numbers: int  # elements of all parameters, with frozen ones

    @property
    def share(self) -> float:
        """Return the trained share of the model's elements, 0 to 1."""
        return sum(group.numbers for group in self.groups) / max(1, self.numbers)

    def __str__(self) -> str:
        trained = sum(group.numbers for group in self.groups)
        groups = "; ".join(str(group) for group in self.groups) or "nothing"
        return f"trains {trained:,} of {self.numbers:,} parameters ({self.share:.2%}): {groups}"


def trainable(model: nn.Module, *, head: Sequence[str] = ()) -> Trainable:
    """Return the parameters with a gradient as adapters, head (modules of `head`) and rest.

    Shared tensors are counted once. Raises ConfigError for a head that does not exist.
    """
    kinds = {"adapters": _of_adapters(model), "head": _of_head(model, head)}
    names: dict[str, list[str]] = {"adapters": [], "head": [], "rest": []}
    numbers = dict.fromkeys(names, 0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = next(
                (kind for kind, members in kinds.items() if id(parameter) in members), "rest"
            )
            names[kind].append(name)
            numbers[kind] += parameter.numel()
    return Trainable(
        groups=tuple(
            TrainedGroup(name=kind, names=tuple(group), numbers=numbers[kind])
            for kind, group in names.items()
            if group
        ),
        numbers=sum(map(elements, model.parameters())),
    )


def check_trainable(
    model: nn.Module,
    *,
    means: Literal["adapters", "head", "all"],
    head: Sequence[str] = (),
) -> Trainable:
    """Return the trained parameters if `means` is true of them.

    That is: adapters and head are trained, only the head, or all. Raises ConfigError that names the
    parameters that are trained and should not be, and vice versa.
    """
    trained = trainable(model, head=head)
    named = dict(model.named_parameters())
    meant = set() if means != "adapters" else _of_adapters(model)
    meant |= _of_head(model, head)
    if means == "all":
        meant |= {id(parameter) for parameter in named.values()}
    if not meant:
        meaning = "no adapters" if means == "adapters" else "no head"
        raise ConfigError(f"training means {means}, and the model has {meaning}")
    wrong = [n for n, p in named.items() if p.requires_grad and id(p) not in meant]
    missing = [n for n, p in named.items() if not p.requires_grad and id(p) in meant]
    if means == "adapters" and not _of_adapters(model):
        raise ConfigError("training means adapters, and the model has none: only its head learns")
    faults = [f"{len(wrong)} are trained and should not be: {_some(wrong)}"] if wrong else []
    faults += [f"{len(missing)} should be trained and are not: {_some(missing)}"] if missing else []
    if faults:
        meaning = {"adapters": "adapters", "head": "the head alone", "all": "all parameters"}[means]
        also = f" and {', '.join(head)}" if head and means == "adapters" else ""
        raise ConfigError(f"of what training {meaning}{also} means, {'; '.join(faults)}")
    return trained


def _of_adapters(model: nn.Module) -> set[int]:
    return {id(p) for layer in adapted(model).values() for p in layer.trained().values()}


def _of_head(model: nn.Module, head: Iterable[str]) -> set[int]:
    return {id(p) for module in saved_modules(model, head).values() for p in module.parameters()}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if names[_MOST:] else "")


class Gradients:
    """Watch the first steps for trainable parameters that never get a gradient.

    A of LoRA has no gradient while B is 0, so only steps with a non-zero B count for it. Nothing
    waits for the device before `dead` is called. For a matrix, a gradient within float32's rounding
    of the largest gradient counts as none (queries of a decoder that uses only the first token:
    2e-9 of it), because Adam would make full-size steps of that noise. For A, which grows with B
    from 0, and for vectors only 0 counts as none: the softmax of attention is invariant to a bias
    of its keys. In a stack the adapter of each task is judged by itself, by windows with rows of
    that task.
    """

    def __init__(self, model: nn.Module, sharded_optimizer: ShardedOptimizer | None = None) -> None:
        self._sharded = sharded_optimizer
        layers = adapted(model).values()
        behind = {id(layer.lora_A): layer for layer in layers if isinstance(layer, LoraLinear)}
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
        for name, tensor in model.named_parameters():
            if not tensor.requires_grad:
                continue
            whole_shape = tensor.shape if self._sharded is None else self._sharded.shape(tensor)
            is_matrix = len(whole_shape) > 1
            b_OR = behind[id(tensor)].lora_B if id(tensor) in behind else None
            if id(tensor) not in stacks:
                self._watched[name] = _Watched(parameter=tensor, is_matrix=is_matrix, behind=b_OR)
                continue
            layer, dim = stacks[id(tensor)]
            for task, task_name in enumerate(layer.shares.tasks):
                self._watched[f"{name} of {task_name}"] = _Watched(
                    parameter=tensor,
                    is_matrix=is_matrix,
                    behind=b_OR,
                    stack=layer,
                    dim=dim,
                    task=task,
                )
        self._largest: dict[str, Tensor] = {}  # absolute value of the gradient, over all looks
        self._could: dict[str, Tensor] = {}  # largest B, for A; largest share of the task, for B
        self.looks = 0

    @property
    def later(self) -> tuple[int, ...]:
        """Return the numbers of looks after which more is known, as a task's rows may come late."""
        return _LATER if self._shares else ()

    @torch.no_grad()
    def look(self) -> None:
        """Record the gradients; call it after a window's last backward, before the update."""
        self.looks += 1
        for name, watched in self._watched.items():
            seen = watched.seen
            if watched.behind is not None:
                self._keep(self._could, name, watched.of(self._weight(watched.behind), 1), seen)
            elif seen is not None:
                self._keep(self._could, name, seen, None)
            if (gradient := self._gradient(watched.parameter)) is not None:
                self._keep(self._largest, name, watched.of(gradient, watched.dim), seen)
        for shares in self._shares.values():
            shares.forget()

    def _weight(self, parameter: Tensor) -> Tensor:
        return whole(parameter) if self._sharded is None else self._sharded.weight(parameter)

    def _gradient(self, parameter: Tensor) -> Tensor | None:
        if self._sharded is not None:
            return self._sharded.gradient(parameter)
        return None if parameter.grad is None else whole(parameter.grad)

    @staticmethod
    def _keep(maxima: dict[str, Tensor], name: str, values: Tensor, seen: Tensor | None) -> None:
        largest = values.float().abs().amax()
        if seen is not None:  # a window without rows of the task does not count
            largest = largest * (seen != 0)
        maxima[name] = torch.maximum(maxima[name], largest) if name in maxima else largest

    def dead(self) -> list[str]:
        """Return the parameters whose gradient was None, or 0 up to rounding, in every look."""
        moved = _values(self._largest)
        could = _values(self._could)
        known = filter(math.isfinite, moved.values())  # others overflowed in fp16
        noise = torch.finfo(torch.float32).eps * max(known, default=0.0)
        return [
            name
            for name, watched in self._watched.items()
            if moved.get(name, 0.0)
            <= (noise if watched.behind is None and watched.is_matrix else 0.0)
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
    """A parameter, or the part of one task in a stack of adapters."""

    parameter: Tensor
    is_matrix: bool
    behind: Tensor | None  # for A its B: while it is 0, A has no gradient
    stack: StackedLora | None = None
    dim: int = 0  # along which adapters are concatenated: 0 in A, 1 in B
    task: int = 0

    @property
    def seen(self) -> Tensor | None:
        """Return the largest share that a row took of it, a scalar; None: all rows use it."""
        return None if self.stack is None else self.stack.shares.seen(self.task)

    def of(self, values: Tensor, dim: int) -> Tensor:
        if self.stack is None:
            return values
        rank = self.stack.adapter.rank
        return values.narrow(dim, self.task * rank, rank)


def _values(scalars: dict[str, Tensor]) -> dict[str, float]:
    """Return the scalars, copied from the device at once."""
    if not scalars:
        return {}
    first = next(iter(scalars.values())).device
    together = torch.stack([value.to(first) for value in scalars.values()])
    return dict(zip(scalars, together.tolist(), strict=True))
