"""Times both forms of work that can be written in another way, on random tensors of its shapes.

The forms run in turn in the process of the script, between its steps, with its number of threads,
and forward and backward if gradients flow. First both must give the same values and gradients.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Any

from hotloop.machine.own_clock import own_time
from hotloop.observe.experiments.forms import forms
from hotloop.observe.experiments.variants import TimedPart, Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.case.rewrite import Rewrite
    from hotloop.core.finding import SourceLocation

__all__ = ["OtherForm"]

_ROUND = 0.12  # seconds for both forms of a rewrite between two blocks of steps
_CALLS = 4  # at least, of each form in a round
_TOLERANCE = {
    "float64": 1e-7,
    "float32": 1e-3,
    "bfloat16": 6e-2,
    "float16": 2e-2,
    "int64": 0.0,
    "int32": 0.0,
    "uint8": 0.0,
    "bool": 0.0,
}


class OtherForm(Variant):
    """Work in another form: both are timed between blocks of plain steps, apart from the script."""

    def __init__(self, rewrites: Sequence[Rewrite]) -> None:
        self._rewrites = rewrites
        self._pairs: list[tuple[Rewrite, _Pair]] | None = None

    @property
    def places(self) -> tuple[SourceLocation, ...]:
        """Return the lines whose other form is faster."""
        pairs = self._pairs or ()
        return tuple(dict.fromkeys(place for one, _ in pairs for place in one.places))

    def prepare(self) -> str | None:
        """Compare the values of both forms; leave out the rewrites whose other form is slower."""
        why: str | None = None
        if self._pairs is not None:
            return None
        pairs: list[tuple[Rewrite, _Pair]] = []
        faster: list[tuple[Rewrite, _Pair]] = []
        for rewrite in self._rewrites:
            try:
                pair = _Pair(rewrite)
                no = pair.differs()
                old, new = (0.0, 0.0) if no else pair.measured()
            except (RuntimeError, ValueError) as error:  # no memory, or no kernel
                no = f"{error!r:.200}"
            why = why or no
            if no is None:
                pairs.append((rewrite, pair))
                faster += [(rewrite, pair)] if new < old else []
        if not pairs:
            return why
        self._pairs = faster or pairs
        return None

    def measured_apart(self, step: float, waiting: float) -> TimedPart:
        """Return the time of both forms, as just measured; its share of a step is as recorded."""
        del step, waiting
        pairs = self._pairs or []
        times = [pair.measured() for _, pair in pairs]
        return TimedPart(
            seconds=sum(old for old, _ in times),
            changed=sum(new for _, new in times),
            most=min(1.0, sum(rewrite.share for rewrite, _ in pairs)),
        )

    def switch_on(self) -> None:
        """Leave the script as it is."""

    def switch_off(self) -> None:
        """Leave the script as it is."""


class _Pair:
    """Both forms of a rewrite, with tensors."""

    def __init__(self, rewrite: Rewrite) -> None:
        torch: Any = sys.modules["torch"]
        self._rewrite = rewrite
        self._times: tuple[list[float], list[float]] = [], []  # of all rounds
        with torch.enable_grad(), self._plain():
            self._forms = forms(rewrite)
            tensors = [*self._forms.inputs, *self._forms.weights]
            self._trained = [tensor for tensor in tensors if tensor.requires_grad]
            self._sums: dict[int, Any] = {}  # gradients of weights, by the place in `_trained`
            # The old form of a loop has a result for each call, the new one has them in one.
            self._of_old = [_ramp(output) for output in self._forms.old()]
            self._of_new = [_ramp(output) for output in self._forms.new()]

    def _plain(self) -> Any:
        """Switch autocast off, which has done its work on the recorded dtypes."""
        torch: Any = sys.modules["torch"]
        return torch.autocast(self._rewrite.device, enabled=False)

    def differs(self) -> str | None:
        """Return why the forms are not the same, or None."""
        torch: Any = sys.modules["torch"]
        dtypes = self._rewrite.dtypes
        if not _TOLERANCE.keys() >= set(dtypes):
            return f"no tolerance is known for {', '.join(dtypes)}"
        tolerance = max(_TOLERANCE[dtype] for dtype in dtypes)
        differentiated = [tensor for tensor in self._forms.inputs if tensor.requires_grad]
        results = []
        with torch.enable_grad(), self._plain():
            for form in self._forms.exact:
                outputs = list(form())
                if differentiated:
                    outputs += torch.autograd.grad(outputs, differentiated, self._of_new)
                results.append([output.detach().double() for output in outputs])
        for old, new in zip(*results, strict=True):
            if old.shape != new.shape or (old - new).abs().max() > tolerance * old.abs().max():
                return "the other form gives other values"
        return None

    def measured(self) -> tuple[float, float]:
        """Return the seconds of a step in the old and in the new form."""
        torch: Any = sys.modules["torch"]
        times: tuple[list[float], list[float]] = [], []
        with torch.enable_grad(), self._plain():
            began = own_time()
            while len(times[0]) < _CALLS or own_time() - began < _ROUND:
                times[0].append(self._time(self._forms.old, self._of_old))
                times[1].append(self._time(self._forms.new, self._of_new))
        # The first call of a round finds other data in the cache.
        seconds = self._rewrite.calls * statistics.median(times[0][1:])
        for of_form, of_all in zip(times, self._times, strict=True):
            of_all += of_form[1:]
        old, new = map(statistics.median, self._times)  # their ratio is the same in each round
        return seconds, seconds * new / old

    def _time(self, form: Callable[[], Sequence[Any]], of_outputs: Sequence[Any]) -> float:
        torch: Any = sys.modules["torch"]
        started = own_time()
        outputs = form()
        if self._trained:  # not backward(): the trial takes it for one of the script
            gradients = torch.autograd.grad(outputs, self._trained, of_outputs, allow_unused=True)
            if self._forms.adds_up:
                self._add_up(gradients)
        if self._rewrite.device == "cuda":
            torch.cuda.synchronize()
        return own_time() - started

    def _add_up(self, gradients: Sequence[Any]) -> None:
        """Add the gradients of weights to those of earlier calls, as a loop over time does."""
        first = sum(tensor.requires_grad for tensor in self._forms.inputs)
        for number, gradient in enumerate(gradients[first:]):
            if gradient is not None and number in self._sums:
                self._sums[number].add_(gradient)
            elif gradient is not None:
                self._sums[number] = gradient


def _ramp(tensor: Any) -> Any:
    """Return a gradient whose numbers differ."""
    import torch

    count = tensor.numel()
    ramp = torch.linspace(0.5, 1.5, count, dtype=torch.float32, device=tensor.device)
    return ramp.reshape(tensor.shape).to(tensor.dtype)
