"""Says what a model trains, checks it against what was meant, and finds what never learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from hotloop.core.errors import ConfigError
from hotloop.models.adapters import adapted, saved_modules
from hotloop.models.lora import LoraLinear
from hotloop.models.quantised import elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

__all__ = ["Gradients", "Group", "Trainable", "check_trainable", "trainable"]

_MOST = 5  # names in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Parameters that are trained for the same reason."""

    name: str
    names: tuple[str, ...]
    numbers: int  # elements of all of them

    def __str__(self) -> str:
        return f"{self.name} {self.numbers:,} in {len(self.names)} ({_some(self.names)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainable:
    """What a model trains."""

    groups: tuple[Group, ...]  # adapters, head, rest: those that are there
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
            Group(name=kind, names=tuple(found), numbers=numbers[kind])
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
    """

    def __init__(self, model: nn.Module) -> None:
        self._watched = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._behind = {
            id(layer.lora_A): layer.lora_B
            for layer in adapted(model).values()
            if isinstance(layer, LoraLinear)
        }
        self._largest: dict[str, Tensor] = {}  # absolute value of the gradient, over all looks
        self._could: dict[str, Tensor] = {}  # of B's, for A
        self.looks = 0

    @torch.no_grad()
    def look(self) -> None:
        """Take in the gradients: after a window's last backward, before the update."""
        self.looks += 1
        for name, parameter in self._watched.items():
            if (b_OR := self._behind.get(id(parameter))) is not None:
                self._keep(self._could, name, b_OR)
            if parameter.grad is not None:
                self._keep(self._largest, name, parameter.grad)

    @staticmethod
    def _keep(kept: dict[str, Tensor], name: str, values: Tensor) -> None:
        largest = values.float().abs().amax()
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
            if moved.get(name, 0.0) <= (0.0 if name in could or each.dim() < 2 else noise)
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


def _values(kept: dict[str, Tensor]) -> dict[str, float]:
    """Return the scalars, brought from the device in one go."""
    if not kept:
        return {}
    first = next(iter(kept.values())).device
    together = torch.stack([value.to(first) for value in kept.values()])
    return dict(zip(kept, together.tolist(), strict=True))
