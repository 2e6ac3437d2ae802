"""The changes of an experiment: each can be switched on and off between two steps of a script."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.observe.whatif.without_one_cost import Patches, silence

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.experiments.lines import Lines, Mode
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = [
    "NOT_REACHED",
    "FusedOptimizer",
    "KeptLines",
    "NoAnomalyDetection",
    "NoDistributionChecks",
    "NoLogging",
    "ReadyBatches",
    "ReadySamples",
    "Threads",
    "TimedPart",
    "UpdatedRows",
    "Variant",
]

_SAMPLES = 4096
_OFTEN = 300  # calls of a line in a step
_IMMUTABLE = 1 << 8  # of a class, Py_TPFLAGS_IMMUTABLETYPE: a list has no attributes to set
_ROWS, _FEW = 1000, 0.25  # rows of a table; share of them that a step uses
NOT_REACHED = "the line was not reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPart:
    """What a change does to a part of each step."""

    seconds: float  # of the part of one step, as it is
    changed: float  # the same with the change
    most: float  # share of a step that the part takes at most

    def step(self, plain: float) -> float:
        """Return the seconds of a step with the change, where a plain one takes `plain`."""
        if not self.seconds:
            return plain
        return plain - min(self.seconds, self.most * plain) * (1 - self.changed / self.seconds)


class Variant:
    """A change that is switched on for a block of steps."""

    trims = True  # a rare long step (an evaluation) is no part of what it changes
    is_last = False  # it leaves something behind: it is made when all others are done
    keeps_calls = True  # the models are called as often as without it
    untimed_steps = 0  # made with it at the end, if it is not for its time

    def prepare(self) -> str | None:
        """Return why the change cannot be made yet; called again until its first block is made."""
        return None

    def switch_on(self) -> None:
        """Make the change."""
        raise NotImplementedError

    def switch_off(self) -> None:
        """Take the change back."""
        raise NotImplementedError

    def measured_apart(self, step: float, waiting: float) -> TimedPart | None:
        """Time what it changes apart from the script; None: steps are made with the change.

        `step` and `waiting` are the seconds of a plain step, and those that it waits for batches.
        """
        del step, waiting
        return None

    def steps_per_call(self, steps: int) -> float:
        """Return after how many steps the changed code runs again, seen in so many steps."""
        del steps
        return 1.0


class ReadyBatches(Variant):
    """The DataLoaders that feed training serve their latest batches again."""

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders

    def prepare(self) -> str | None:
        """Look for a loader that feeds training."""
        return None if self._loaders.training else "no DataLoader was read in training"

    def switch_on(self) -> None:
        """Serve from memory."""
        self._loaders.replay = True

    def switch_off(self) -> None:
        """Read again."""
        self._loaders.replay = False


class ReadySamples(Variant):
    """The data set below a loader returns samples that it has made before, whatever the index."""

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._patches = Patches()
        self._kept: deque[Any] = deque(maxlen=_SAMPLES)
        self._is_on = False

    def prepare(self) -> str | None:
        """Patch the classes of the data sets; keep their samples from now on."""
        if self._kept:
            return None
        for loader, _ in self._loaders.training:
            if loader.num_workers:
                return "the samples are made in worker processes"
            kind = type(_innermost(loader.dataset))
            if not hasattr(kind, "__getitem__") or hasattr(kind, "__getitems__"):
                return "the samples are not read one by one"
            if kind.__flags__ & _IMMUTABLE:
                return "the samples lie in memory"
            if not getattr(kind.__getitem__, "__hotloop__", False):
                self._patch(kind)
        return NOT_REACHED if self._loaders.training else "no DataLoader was read in training"

    def switch_on(self) -> None:
        """Return kept samples."""
        self._is_on = True

    def switch_off(self) -> None:
        """Make samples again."""
        self._is_on = False

    def _patch(self, kind: Any) -> None:
        make = kind.__getitem__

        def __getitem__(data: Any, index: Any) -> Any:  # noqa: N807 - replaces it
            if getattr(index, "ndim", 0):  # a whole batch, for another experiment
                return make(data, index)
            if self._is_on:
                self._kept.rotate(-1)
                return self._kept[-1]
            sample = make(data, index)
            self._kept.append(sample)
            return sample

        __getitem__.__hotloop__ = True  # type: ignore[attr-defined]
        self._patches.put(kind, "__getitem__", __getitem__)


def _innermost(data: Any) -> Any:
    """Return the data set below subsets and other wrappers."""
    while hasattr(data, "dataset"):
        data = data.dataset
    return data


class KeptLines(Variant):
    """The values of some lines are handed out again in place of being computed."""

    keeps_calls = False

    def __init__(
        self, lines: Lines, modes: dict[int, Mode], *, trims: bool, nothing: str = ""
    ) -> None:
        """`nothing` says why no mode is left."""
        self._lines, self._modes, self._nothing = lines, modes, nothing
        self.trims = trims

    @property
    def numbers(self) -> set[int]:
        """Return the lines that are skipped."""
        return set(self._modes)

    def prepare(self) -> str | None:
        """See whether the lines were reached and have values that can be kept."""
        if not self._modes:
            return self._nothing
        known = [
            number
            for number in self._modes
            if number not in self._lines.problems and not self._lines.has_loop(number)
        ]
        if not known:
            first = next(iter(self._modes))
            return self._lines.problems.get(first, "the training loop is below it")
        self._modes = {number: self._modes[number] for number in known}
        if max(map(self._lines.most_calls, known)) > _OFTEN:
            for number in known:
                self._lines.leave_alone(number)
            return "it runs so often in a step that watching it takes longer than the line"
        return None if all(map(self._lines.is_kept, known)) else NOT_REACHED

    def switch_on(self) -> None:
        """Hand out the kept values."""
        for number, mode in self._modes.items():
            self._lines.modes[number] = mode

    def switch_off(self) -> None:
        """Compute again."""
        for number in self._modes:
            self._lines.modes[number] = "live"

    def steps_per_call(self, steps: int) -> float:
        """Return the steps between two calls of the rarest line."""
        return steps / max(1, min(self._lines.calls[number] for number in self._modes))


class NoLogging(Variant):
    """Nothing is printed, logged or drawn."""

    trims = False

    def __init__(self) -> None:
        self._patches = Patches()

    def switch_on(self) -> None:
        """Silence it."""
        silence(self._patches)

    def switch_off(self) -> None:
        """Let it speak again."""
        self._patches.undo()


class Threads(Variant):
    """Operators of torch run on another number of threads."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._usual = 0

    def prepare(self) -> str | None:
        """Compare the number with the script's own."""
        torch: Any = sys.modules["torch"]
        self._usual = torch.get_num_threads()
        return None if self._usual != self._count else f"it runs on {self._count} threads already"

    def switch_on(self) -> None:
        """Set the number."""
        sys.modules["torch"].set_num_threads(self._count)

    def switch_off(self) -> None:
        """Set the script's number."""
        sys.modules["torch"].set_num_threads(self._usual)


class NoAnomalyDetection(Variant):
    """Autograd looks for no anomalies."""

    def prepare(self) -> str | None:
        """See whether anomaly detection is on between two steps."""
        is_on = sys.modules["torch"].is_anomaly_enabled()
        return None if is_on else "anomaly detection is not on between two steps"

    def switch_on(self) -> None:
        """Switch it off."""
        sys.modules["torch"].autograd.set_detect_anomaly(False)

    def switch_off(self) -> None:
        """Switch it on."""
        sys.modules["torch"].autograd.set_detect_anomaly(True)


class NoDistributionChecks(Variant):
    """torch.distributions takes its arguments and values unchecked."""

    def prepare(self) -> str | None:
        """See whether the checks are on."""
        are_on = sys.modules["torch"].distributions.Distribution._validate_args
        return None if are_on else "they are off already"

    def switch_on(self) -> None:
        """Leave the checks out."""
        self._set(False)

    def switch_off(self) -> None:
        """Check again."""
        self._set(True)

    @staticmethod
    def _set(is_on: bool) -> None:
        torch: Any = sys.modules["torch"]
        torch.distributions.Distribution.set_default_validate_args(is_on)
        if (pyro := sys.modules.get("pyro")) is not None:  # it checks what it infers as well
            pyro.enable_validation(is_on)


class FusedOptimizer(Variant):
    """The optimizers of torch update all tensors of a group in one call."""

    def __init__(self, optimizers: Callable[[], list[Any]]) -> None:
        self._optimizers = optimizers
        self._usual: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._counts: list[tuple[dict[str, Any], Any]] = []  # states, and their usual counter

    def prepare(self) -> str | None:
        """Look for an optimizer that has a fused form and does not use it."""
        groups = [
            group
            for optimizer in self._optimizers()
            for group in optimizer.param_groups
            if "fused" in group and not group["fused"] and _can_be_fused(optimizer, group)
        ]
        self._usual = [
            (group, {name: group[name] for name in ("fused", "foreach")}) for group in groups
        ]
        return None if groups else "no optimizer has a fused form that it does not use"

    def switch_on(self) -> None:
        """Use the fused form, which counts steps on the device of the parameters."""
        for group, _ in self._usual:
            group.update(fused=True, foreach=False)
        for optimizer in self._optimizers():
            for parameter, state in optimizer.state.items():
                count = state.get("step")
                if hasattr(count, "device") and count.device != parameter.device:
                    self._counts.append((state, count))
                    state["step"] = count.to(parameter.device)

    def switch_off(self) -> None:
        """Use the script's form."""
        while self._counts:
            state, count = self._counts.pop()
            state["step"] = state["step"].to(count.device)
        for group, usual in self._usual:
            group.update(usual)


class UpdatedRows(Variant):
    """Tables of which a step uses few rows are left out of the update, which goes through all."""

    def __init__(self, optimizers: Callable[[], list[Any]]) -> None:
        self._optimizers = optimizers
        self._tables: list[Any] = []
        self._handle: Any = None

    def prepare(self) -> str | None:
        """Look for tables whose gradient is dense and almost everywhere 0."""
        groups = [group for optimizer in self._optimizers() for group in optimizer.param_groups]
        parameters = [parameter for group in groups for parameter in group["params"]]
        if all(parameter.grad is None for parameter in parameters):
            return NOT_REACHED
        self._tables = [parameter for parameter in parameters if _is_sparse_at_heart(parameter)]
        return None if self._tables else "no table has a gradient that is almost everywhere 0"

    def switch_on(self) -> None:
        """Take the gradients of the tables away before each update."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        def drop(*_: object) -> None:
            for table in self._tables:
                table.grad = None

        self._handle = register_optimizer_step_pre_hook(drop)

    def switch_off(self) -> None:
        """Update them again."""
        self._handle.remove()


def _is_sparse_at_heart(parameter: Any) -> bool:
    """Whether a table has a dense gradient with few rows that are not 0."""
    gradient = parameter.grad
    if gradient is None or gradient.is_sparse or parameter.dim() != 2:
        return False
    rows = int(gradient.any(dim=1).sum())
    return bool(parameter.shape[0] >= _ROWS and rows < _FEW * parameter.shape[0])


def _can_be_fused(optimizer: Any, group: dict[str, Any]) -> bool:
    """Whether all tensors and states of a group fit the fused form."""
    import torch

    usual = all(p.is_floating_point() and p.layout is torch.strided for p in group["params"])
    states = [optimizer.state.get(parameter, {}).get("step") for parameter in group["params"]]
    counted = all(step is None or isinstance(step, torch.Tensor) for step in states)
    return usual and counted and not group.get("differentiable", False)
