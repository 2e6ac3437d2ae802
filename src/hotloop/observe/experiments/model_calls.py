"""Times a model's passes on joined batches, or on shorter rows, than the script gives it.

The calls of one step are kept with their inputs. They are made again, forward and backward, once
the script's own steps are done. What a step does between its calls is not timed.
"""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.machine.own_clock import own_time
from hotloop.observe.experiments.resized_inputs import (
    ResizingError,
    addresses_of,
    mapped,
    narrowed,
    repeated,
    stacked,
    tensors_of,
    unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotloop.observe.whatif.without_one_cost import Patches

    _Joins = Callable[["_Call", int], Callable[[Any], Any]]

__all__ = ["ModelCalls", "Resized"]

_KINDS: Final = 8  # calls of a step that differ in their shapes or in the line that makes them
_FEWEST: Final = 2
_ROUNDS: Final = 5
_SECONDS: Final = 1.5  # for all rounds of a call
_SHORT: Final = 0.02  # seconds in which a pass is made again
_ALIKE: Final = 1.1  # ratio of two times of which the longer is as good
_ROOM: Final = 0.25  # of the free memory that a pass may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """Seconds of the model's calls in a step, as they are and changed: a pair for each round."""

    rounds: tuple[tuple[float, float], ...]
    joined: int = 1  # calls that were made as one


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call of a model with its inputs."""

    module: Any
    inputs: Any  # positional and named
    has_grad: bool
    autocast: tuple[str, Any, bool]  # device type, data type, whether it is on
    count: int = 1  # of such calls in the step
    takes_outputs: bool = False  # one of them takes what another call returned
    addresses: list[int | None] = field(default_factory=list)  # of the inputs; None: they differ

    def made_with(
        self, change: Callable[[Any], Any], *, has_grad: bool | None = None
    ) -> Callable[[], None]:
        """Return a function that makes a forward and a backward pass on changed inputs.

        Without `has_grad` it is a forward pass alone; by default, as the script makes it.
        """
        import torch

        positional, named = mapped(change, self.inputs)
        kind, dtype, is_on = self.autocast
        is_graph = self.has_grad if has_grad is None else has_grad

        def passes() -> None:
            with torch.set_grad_enabled(is_graph), torch.autocast(kind, dtype, is_on):
                results = [
                    x for x in tensors_of(self.module(*positional, **named)) if x.requires_grad
                ]
            if results:
                torch.autograd.backward(results, [torch.ones_like(x) for x in results])

        return passes


class ModelCalls:
    """The calls of models in one step of the script."""

    def __init__(self, wait: Callable[[], None]) -> None:
        """`wait` waits for the device."""
        self._wait = wait
        self._calls: dict[tuple[Any, ...], _Call] = {}
        self._backwards = 0
        self._depth = 0
        self._began = self._ended = 0.0  # the step that is watched
        self._within = 0.0  # seconds of it in models and backward passes

    def watch(self, patches: Patches) -> None:
        """Keep the calls from now on, until the patches are undone."""
        import torch

        call = torch.nn.Module.__call__
        backward = torch.autograd.backward
        self._began = own_time()

        def kept(module: Any, *inputs: Any, **named: Any) -> Any:
            if self._depth:
                return call(module, *inputs, **named)
            began = own_time()
            self._keep(module, (inputs, named), sys._getframe(1))
            self._depth += 1
            try:
                return call(module, *inputs, **named)
            finally:
                self._depth -= 1
                self._within += own_time() - began

        def counted(*inputs: Any, **named: Any) -> None:
            began = own_time()
            backward(*inputs, **named)
            self._backwards += 1
            self._within += own_time() - began

        patches.put(torch.nn.Module, "__call__", kept)
        patches.put(torch.autograd, "backward", counted)

    def ended_step(self) -> None:
        """Note the end of the step that is watched."""
        self._ended = self._ended or own_time()

    @property
    def seen(self) -> bool:
        """Whether a step was watched to its end."""
        return self._ended > 0

    @property
    def between(self) -> float:
        """Return the share of the step that was spent outside of models and backward passes."""
        return max(0.0, 1 - self._within / (self._ended - self._began))

    def _keep(self, module: Any, inputs: Any, frame: Any) -> None:
        import torch

        weight = next(module.parameters(), None)
        if weight is None:
            return
        shapes = tuple(tuple(x.shape) for x in tensors_of(inputs))
        key = (id(module), frame.f_code, frame.f_lineno, shapes)
        chained = any(x.grad_fn is not None for x in tensors_of(inputs))
        if key in self._calls:
            call = self._calls[key]
            call.count += 1
            call.takes_outputs |= chained
            call.addresses = [
                one if one == other else None
                for one, other in zip(call.addresses, addresses_of(inputs), strict=True)
            ]
        elif len(self._calls) < _KINDS:
            kind = weight.device.type
            self._calls[key] = _Call(
                module=module,
                inputs=mapped(lambda x: x.detach(), inputs),
                has_grad=torch.is_grad_enabled(),
                takes_outputs=chained,
                addresses=addresses_of(inputs),
                autocast=(
                    kind,
                    torch.get_autocast_dtype(kind),
                    torch.is_autocast_enabled(kind),
                ),
            )

    def joined(self) -> Resized:
        """Time the micro batches of a step as they are and joined to fewer, larger ones.

        Raises ResizingError unless one line calls one model once for each backward pass.
        """
        calls = self._of_one_line()
        if self._backwards < 2 or _number(calls) != self._backwards:
            raise ResizingError("no line calls the model once for each backward pass of a step")
        if any(call.takes_outputs for call in calls):
            raise ResizingError("the model's calls take what other calls returned")
        call = max(calls, key=lambda call: call.count)
        with _restored([call]), _refusal():
            factor, rounds = self._joined(call, self._backwards, repeated)
        number = self._backwards
        return Resized(
            rounds=tuple((number * plain, number / factor * more) for plain, more in rounds),
            joined=factor,
        )

    def of_one_pass(self) -> Resized:
        """Time the calls of a step as they are, and without a graph with one call for all of them.

        A game may answer to each call, or the next one need a sample of it, so each is still made.
        Raises ResizingError unless one line calls one model often for a backward pass.
        """
        calls = [call for call in self._of_one_line() if call.has_grad]
        if not self._backwards or _number(calls) < 2 * self._backwards:
            raise ResizingError("no line calls the model several times for a backward pass")
        if any(call.takes_outputs for call in calls):
            raise ResizingError("the model's calls take what other calls returned")
        call = max(calls, key=lambda call: call.count)
        number = _number(calls)
        with _restored([call]), _refusal():
            try:
                factor, rounds = self._joined(call, number // self._backwards, repeated)
            except RuntimeError:  # a call may be one sample, without a dimension of rows
                factor, rounds = self._joined(call, number // self._backwards, stacked)
            alone = self._seconds(call.made_with(unchanged, has_grad=False))
        return Resized(
            rounds=tuple(
                (number * plain, number * (more / factor + alone)) for plain, more in rounds
            ),
            joined=factor,
        )

    def _of_one_line(self) -> list[_Call]:
        """Return the calls of the line that calls a model most often."""
        of_line = defaultdict[Any, list[_Call]](list)
        for (*line, _), call in self._calls.items():
            of_line[tuple(line)].append(call)
        return max(of_line.values(), key=_number, default=[])

    def _joined(
        self, call: _Call, most: int, joins: _Joins
    ) -> tuple[int, list[tuple[float, float]]]:
        """Return how many calls to join, and the times of a call as it is and joined."""
        factor = self._factor(call, most, joins)
        return factor, self._rounds(call, joins(call, factor))

    def _factor(self, call: _Call, most: int, joins: _Joins) -> int:
        """Return how many calls to join: the fewest at which a row takes about the least time."""
        seconds = dict[int, float]()  # of the rows of one call, by the number that is joined
        powers = [2**n for n in range(1, most.bit_length()) if 2**n < most]
        for factor in [*powers, most]:
            before = psutil.Process().memory_info().rss
            seconds[factor] = self._seconds(call.made_with(joins(call, factor))) / factor
            taken = psutil.Process().memory_info().rss - before
            if taken > _ROOM * psutil.virtual_memory().available:
                break
        least = min(seconds.values())
        return min(factor for factor, time in seconds.items() if time <= _ALIKE * least)

    def cut(self, share: float, width: int | None = None) -> Resized:
        """Time the calls of a step as they are and with that share of each row's positions.

        With `width`, only rows of that width are cut. Raises ResizingError if a model does not take
        such inputs.
        """
        of_calls = []
        with _restored(list(self._calls.values())), _refusal():
            for call in self._calls.values():
                rounds = self._rounds(call, narrowed(call, share, width))
                of_calls.append([(call.count * plain, call.count * cut) for plain, cut in rounds])
        if not of_calls:
            raise ResizingError("no model was called")
        return Resized(
            rounds=tuple(
                (sum(plain for plain, _ in pairs), sum(cut for _, cut in pairs))
                for pairs in zip(*of_calls, strict=False)
            )
        )

    def _rounds(self, call: _Call, change: Callable[[Any], Any]) -> list[tuple[float, float]]:
        """Time a call as it is and changed, in turn."""
        plain, changed = call.made_with(unchanged), call.made_with(change)
        seconds = self._seconds(plain) + self._seconds(changed)
        number = min(_ROUNDS, max(_FEWEST, int(_SECONDS / max(seconds, 1e-9))))
        return [(self._seconds(plain), self._seconds(changed)) for _ in range(number)]

    def _seconds(self, passes: Callable[[], None]) -> float:
        """Return the seconds of one pass, the smallest of several if they are short."""
        best, end = float("inf"), own_time() + _SHORT
        while True:
            self._wait()
            began = own_time()
            passes()
            self._wait()
            now = own_time()
            best = min(best, now - began)
            if now > end:
                return best


def _number(calls: list[_Call]) -> int:
    return sum(call.count for call in calls)


@contextlib.contextmanager
def _refusal() -> Iterator[None]:
    """Turn what the model raises into a ResizingError."""
    try:
        yield
    except ResizingError:
        raise
    except Exception as error:  # whatever the user's forward raises
        raise ResizingError(f"the model does not take such inputs: {error!r:.150}") from error


@contextlib.contextmanager
def _restored(calls: list[_Call]) -> Iterator[None]:
    """Give the weights their gradients back."""
    weights = [weight for call in calls for weight in call.module.parameters()]
    gradients = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    try:
        yield
    finally:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
