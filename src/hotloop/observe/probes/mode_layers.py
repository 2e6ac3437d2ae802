"""The layers whose result depends on the mode of a model, and where eval() was called."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import Modes
from hotloop.observe.hooks.hooks import unseen
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.observe.hooks.stack_frames import here, is_own
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from hotloop.core.finding import SourceLocation
    from hotloop.observe.wall.wall_time import Folded

__all__ = ["ModeLayers", "ModeObservation"]

_NOTED = 200  # calls of eval(): an agent makes one at each step


@dataclass(slots=True)
class ModeObservation:
    """What was seen of an outermost module; layers are counted by class."""

    layers: Counter[str] = field(default_factory=Counter)
    off: Counter[str] = field(default_factory=Counter)  # in evaluation mode right after an update
    evals: list[tuple[int, SourceLocation | None]] = field(default_factory=list)  # updates before
    looks: int = 0  # with the outermost module in training mode
    partly: int = 0  # those of them that found dropout off in a part of it
    part: tuple[str, Counter[str], SourceLocation | None] = ("", Counter(), None)

    def place(self, updates: int) -> SourceLocation | None:
        """Return where eval() was called last when so many updates had been made."""
        return next((place for at, place in reversed(self.evals) if at <= updates), None)


class ModeLayers(Probe):
    """Looks at the models after updates, and notes the calls of eval() and train(False)."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self.seen: dict[int, ModeObservation] = {}  # by number of the outermost module
        self._calls: list[tuple[int, weakref.ref[Any], SourceLocation | None]] = []
        # The same calls, and whether a library made them: from_pretrained does.
        self._given: list[tuple[weakref.ref[Any], SourceLocation | None, bool]] = []
        self._noted = 0
        self._refresh = 1

    def on_torch_imported(self) -> None:
        """Hook nn.Module.train, which eval() calls, for itself and for each part of a model."""
        import torch

        is_inside = False

        def note(module: Any, by_library: bool) -> None:
            self._noted += 1
            place = here()
            self._calls.append((self._observer.hooks.updates, weakref.ref(module), place))
            self._given.append((weakref.ref(module), place, by_library))

        @functools.wraps(torch.nn.Module.train)
        def train(module: Any, mode: bool = True) -> Any:
            nonlocal is_inside
            if is_inside or mode or self._noted >= _NOTED:
                return old(module, mode)
            self._observer.hooks.guarded(note, module, _by_library(sys._getframe(1)))
            is_inside = True
            try:
                return old(module, mode)
            finally:
                is_inside = False

        old = self._observer.hooks.replace(torch.nn.Module, "train", unseen(train))

    def after_step(self, updates: int) -> None:
        """List the layers now and then, and when a model is first found in evaluation mode."""
        is_due = updates >= self._refresh
        self._refresh = 2 * updates if is_due else self._refresh
        calls = [(at, model, place) for at, ref, place in self._calls if (model := ref())]
        self._calls.clear()
        for built, root in alive(self._observer.roots):
            if built.number is None:
                continue
            seen = self.seen.setdefault(built.number, ModeObservation())
            seen.evals += [(at, place) for at, model, place in calls if _holds(model, root)]
            is_off = not root.training and not seen.off
            if is_due or is_off:
                found = list(_dependent(root, self._optimised()))
                seen.layers = _classes(found)
            if is_off:
                seen.off = _classes([layer for layer in found if not layer.training])
            if is_due and root.training:
                seen.looks += 1
                self._look_inside(seen, root, found)

    def _look_inside(self, seen: ModeObservation, root: Any, found: list[Any]) -> None:
        """See whether dropout is off in a part that a library set to evaluation mode."""
        off = {id(layer) for layer in found if not layer.training and not _is_norm(layer)}
        given = [(module(), place) for module, place, by_library in self._given if by_library]
        for name, module in root.named_modules() if off else ():
            place = next((place for one, place in given if one is module), None)
            layers = [layer for layer in module.modules() if id(layer) in off]
            if place is not None and not module.training and layers:
                seen.partly += 1
                seen.part = name, _classes(layers), place
                return

    def modes(self, number: int | None, folded: Folded) -> Modes | None:
        """Return the modes of an outermost module, after the run; None if it was not looked at."""
        if number is None or number not in self.seen or number not in folded.modes:
            return None
        counts, seen = folded.modes[number], self.seen[number]
        since = counts.eval_since
        return Modes(
            layers=dict(seen.layers),
            off=dict(seen.off),
            updates=counts.updates,
            passes=folded.roots[number, "train"] / max(1, len(folded.ends)),
            in_eval=counts.in_eval,
            turns=counts.turns,
            eval_since=None if since is None else folded.steps_after(since) + 1,
            eval_place=None if since is None else seen.place(since),
            part=seen.part[0] if seen.partly == seen.looks > 0 else "",
            part_off=dict(seen.part[1]),
            part_place=seen.part[2],
            scored=counts.scored,
            unset=counts.unset,
        )

    def _optimised(self) -> set[int]:
        """Return id()s of what optimizers hold."""
        groups = [g for _, opt in alive(self._observer.optimizers) for g in opt.param_groups]
        return {id(parameter) for group in groups for parameter in group["params"]}


def _classes(layers: list[Any]) -> Counter[str]:
    return Counter(type(layer).__name__ for layer in layers)


def _holds(model: Any, root: Any) -> bool:
    return any(module is root for module in model.modules())


def _dependent(root: Any, optimised: set[int]) -> Iterator[Any]:
    """Yield the layers whose result depends on the mode, where the optimizers train beside them."""
    found: set[int] = set()
    for parent in root.modules():
        layers = [child for child in parent.children() if _depends(child)]
        if parent is root and _depends(root):
            layers.append(root)
        layers = [layer for layer in layers if id(layer) not in found]
        if layers and any(id(p) in optimised for p in parent.parameters()):
            found.update(map(id, layers))
            yield from layers


def _by_library(frame: FrameType | None) -> bool:
    """Whether code of a library asked for the mode, through its own or torch's eval() or not."""
    while frame is not None and frame.f_code.co_name in ("eval", "train"):
        if is_own(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return frame is None or not is_own(frame.f_code.co_filename)


def _is_norm(layer: Any) -> bool:
    """Whether it keeps statistics: those of a trained model are often kept on purpose."""
    return hasattr(layer, "running_mean")


def _depends(layer: Any) -> bool:
    """Whether a layer drops numbers, keeps statistics, or is the project's own and asks."""
    from torch import nn

    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return bool(layer.p > 0)
    if isinstance(layer, nn.modules.batchnorm._NormBase):
        return layer.running_mean is not None
    if isinstance(layer, nn.RNNBase):
        return bool(layer.dropout > 0 and layer.num_layers > 1)
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout > 0)
    code = getattr(type(layer).forward, "__code__", None)
    return code is not None and "training" in code.co_names and is_own(code.co_filename)


hide(globals())
