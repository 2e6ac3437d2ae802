"""Checkpoints that a script goes on from: whether their optimizer and schedule come along.

A file counts if every weight of a model came from it, it holds the state of an optimizer with the
same settings as the one that is stepped next, and a counter of the script goes on from it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.core.case.steps_and_loaders import Resume
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.observe.hooks.stack_frames import here, is_own, names
from hotloop.observe.probes.checkpoints import path_of
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

    _Name = tuple[int, str]  # id() of the function's code or of the object, and the name in it

__all__ = ["ResumeProbe"]

_FILES, _MODELS = 8, 8  # that are kept: the latest
_DEPTH = 3  # of nested dicts in a file
# A counter of the run, and names that are a total, an interval or a count of something else.
_COUNTER = re.compile(r"(^|_)(epochs?|steps?|iters?|iterations?|it)(_|$)|^(epoch|step|iter)")
_TOTAL = re.compile(r"max|num|total|every|per|best|interval|(^|_)n_|warm|until|patience")
_LEAST = 2  # value of a counter: below, a new run could have it as well
_FRAMES = 12  # of the project, that are searched for a counter
_LOOKS = 40  # at the run, for a counter to go on
# Keys of a parameter group that change in a run, or change nothing in the result.
_FREE = {"params", "param_names", "lr", "initial_lr", "momentum", "betas", "max_momentum"}
_FREE |= {"base_momentum", "max_lr", "min_lr", "foreach", "fused", "capturable", "differentiable"}
_CYCLED = {"momentum", "betas"}  # changed by OneCycleLR, which leaves these keys:
_CYCLES = {"base_momentum", "max_momentum"}


@dataclass(slots=True)
class _File:
    """What was loaded from a file."""

    path: str
    tensors: dict[int, weakref.ref[Any]]  # id -> tensor
    optimizers: list[dict[str, Any]]  # their groups, with the shapes of their states
    schedules: list[dict[str, Any]]  # their numbers
    counters: dict[str, int]
    before: dict[_Name, int] = field(default_factory=dict)  # the script's counters at the time


@dataclass(slots=True)
class _Given:
    """A model that got all its weights from a file."""

    model: weakref.ref[Any]
    file: _File
    place: SourceLocation | None


@dataclass(slots=True)
class _Begun:
    """An optimizer that began with such a model."""

    resume: Resume  # without the counter
    # A counter that runs -> its value at the first step and the key of that in the file.
    counters: dict[_Name, tuple[int, str]]
    looks: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a counter may still go on."""
        return bool(self.counters) and not self.resume.counter and self.looks < _LOOKS


class ResumeProbe(Probe):
    """Follows weights from a file into a model, and looks at the next optimizer's first step."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._files: list[_File] = []
        self._given: list[_Given] = []
        self._begun: list[_Begun] = []

    @property
    def is_waiting(self) -> bool:
        """Whether a few more steps will show whether the script goes on from a file."""
        return any(begun.is_open for begun in self._begun)

    def on_torch_imported(self) -> None:
        """Install the hooks of torch.load and load_state_dict."""
        import torch

        replace_ = self._observer.hooks.replace
        replace_(torch, "load", self._opening(torch.load))
        module = torch.nn.Module
        replace_(module, "load_state_dict", self._loading(module.load_state_dict))

    def on_optimizer_first_step(self, optimizer: Any) -> None:
        """Compare an optimizer with the state that lies in the file of its model's weights."""
        for given in self._given:
            model = given.model()
            if model is not None and _updates(optimizer, model):
                self._given.remove(given)
                resume = self._compared(optimizer, given)
                if resume is not None and resume.lost:
                    self._begun.append(_Begun(resume, _going_on(given.file)))
                return

    def after_step(self, updates: int) -> None:
        """See whether a counter that stood where the file's did goes on from there."""
        for begun in self._begun:
            if not begun.is_open:
                continue
            begun.looks += 1
            for name, value in _running():
                first, key = begun.counters.get(name, (value, ""))
                if value > first:
                    begun.resume = replace(begun.resume, counter=key)
                    break

    def add_to(self, case: Case) -> Case:
        """Add the checkpoints that the run went on from."""
        return replace(case, resumes=tuple(begun.resume for begun in self._begun))

    def _opening(self, old: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self._observer.hooks

        @functools.wraps(old)
        def load(*args: Any, **kwargs: Any) -> Any:
            loaded = old(*args, **kwargs)
            hooks.quietly(self._note_file, loaded, args[0] if args else kwargs.get("f"))
            return loaded

        return load

    def _note_file(self, loaded: Any, target: Any) -> None:
        if isinstance(loaded, Mapping) and (path := path_of(target)) is not None:
            file = _File(os.path.abspath(path), {}, [], [], {})
            _read(loaded, file, _DEPTH)
            if file.optimizers and file.tensors:
                file.before = dict(_running())
                self._files = [*self._files, file][-_FILES:]

    def _loading(self, old: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self._observer.hooks

        @functools.wraps(old)
        def load_state_dict(module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            result = old(module, state_dict, *args, **kwargs)
            if self._files:
                hooks.quietly(self._note_model, module, state_dict)
            return result

        return load_state_dict

    def _note_model(self, module: Any, state: Any) -> None:
        self._given = [g for g in self._given if g.model() not in (None, module)]
        needed = {name for name, _ in module.named_parameters()}
        if not needed or not isinstance(state, Mapping) or not needed <= state.keys():
            return
        tensors = [state[name] for name in needed]
        for file in reversed(self._files):
            if all(file.tensors.get(id(t), _none)() is t for t in tensors):
                given = _Given(weakref.ref(module), file, here())
                self._given = [*self._given, given][-_MODELS:]
                return

    def _compared(self, optimizer: Any, given: _Given) -> Resume | None:
        file = given.file
        saved = [s for s in file.optimizers if _is_like(s, optimizer)]
        if len(saved) != 1:
            return None
        rate, saved_rate = optimizer.param_groups[0]["lr"], saved[0]["param_groups"][0]["lr"]
        lost = []
        if saved[0]["shapes"] and not optimizer.state:
            lost.append("optimizer")
        if _is_number(rate) and _is_number(saved_rate) and abs(rate - saved_rate) > 1e-6 * rate:
            schedules = [s for _, s in alive(self._observer.schedulers)]
            own = [s for s in schedules if getattr(s, "optimizer", None) is optimizer]
            if any(_is_begun_again(s, state) for s in own for state in file.schedules):
                lost.append("schedule")
        return Resume(
            path=file.path,
            lost=tuple(lost),
            saved_rate=float(saved_rate) if _is_number(saved_rate) else None,
            rate=float(rate) if _is_number(rate) else None,
            place=given.place,
        )


def _none() -> None:
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _read(part: Mapping[Any, Any], file: _File, depth: int) -> None:
    """Note the tensors, optimizers, schedules and counters of a loaded dict."""
    if "param_groups" in part and "state" in part:
        states = part["state"].values()
        shapes = [tuple(v.shape) for s in states for v in s.values() if getattr(v, "ndim", 0)]
        groups = part["param_groups"]
        file.optimizers.append({"param_groups": groups, "shapes": set(shapes)})
        return
    if "last_epoch" in part and "base_lrs" in part:
        file.schedules.append(dict(part))
        return
    for key, value in part.items():
        if hasattr(value, "untyped_storage"):
            file.tensors[id(value)] = weakref.ref(value)
        elif isinstance(value, Mapping) and depth:
            _read(value, file, depth - 1)
        elif type(value) is int and value >= _LEAST and _counts(str(key)):
            file.counters[str(key)] = value


def _counts(name: str) -> bool:
    return bool(_COUNTER.search(name.lower())) and not _TOTAL.search(name.lower())


def _updates(optimizer: Any, model: Any) -> bool:
    """Whether an optimizer updates parameters of a model, and nothing else."""
    own = {id(parameter) for parameter in model.parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    return bool(held) and all(id(parameter) in own for parameter in held)


def _is_like(saved: Mapping[str, Any], optimizer: Any) -> bool:
    """Whether a saved optimizer has the same settings and the same parameters."""
    groups = optimizer.param_groups
    if len(groups) != len(saved["param_groups"]):
        return False
    for old, new in zip(saved["param_groups"], groups, strict=True):
        free = _FREE - (_CYCLED if not _CYCLES & old.keys() else set())
        settings = [{k: v for k, v in group.items() if k not in free} for group in (old, new)]
        if len(old["params"]) != len(new["params"]) or settings[0] != settings[1]:
            return False
        if old.get("initial_lr", old["lr"]) != new.get("initial_lr", new["lr"]):
            return False
    shapes = {tuple(p.shape) for group in groups for p in group["params"]}
    return bool(saved["shapes"]) and saved["shapes"] <= shapes


def _is_begun_again(scheduler: Any, state: Mapping[str, Any]) -> bool:
    """Whether a schedule of the saved kind stands at its beginning, and the saved one did not."""
    begun = getattr(scheduler, "last_epoch", None) == 0 and state["last_epoch"] > 0
    same = getattr(scheduler, "base_lrs", None) == state["base_lrs"]
    return begun and same and scheduler.state_dict().keys() == state.keys()


def _going_on(file: _File) -> dict[_Name, tuple[int, str]]:
    """Return the counters of the script that were set to where one of the file stood, or next."""
    saved = {value + more: key for key, value in file.counters.items() for more in (1, 0)}
    running = {name: value for name, value in _running() if _counts(name[1])}
    return {
        name: (value, saved[value])
        for name, value in running.items()
        if value in saved and file.before.get(name) != value
    }


def _running() -> Iterator[tuple[_Name, int]]:
    """Yield the whole numbers that the project's running functions and their objects hold."""
    frames = (f for f, _ in walk_stack(sys._getframe(1)) if is_own(f.f_code.co_filename))
    for _, frame in zip(range(_FRAMES), frames, strict=False):
        code, outer = frame.f_code, frame.f_globals
        for name, value in names(frame).items():
            if type(value) is int:
                is_global = name in outer and name not in code.co_varnames
                yield (id(outer if is_global else code), name), value
            elif _is_of_project(type(value).__module__):
                for key, number in getattr(value, "__dict__", {}).items():
                    if type(number) is int:
                        yield (id(value), key), number


@functools.lru_cache(maxsize=1024)
def _is_of_project(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and is_own(file)


hide(globals())
