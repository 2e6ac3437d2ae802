"""Profiles a few training steps and names the hottest operators with their source lines.

Two passes are needed: torch.profiler times the operators of some steps, without stacks; then one
step runs under a dispatch mode and anomaly mode, which give the project's line that called each
operator and, for the backward pass, the line of its forward operator. (torch.profiler's own stacks
give the first line of a function, and nothing in backward.)
"""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from hotloop.core.case.environment import Operator
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import here, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Profile"]

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = {"c10::Half": "float16", "c10::BFloat16": "bfloat16", "float": "float32"}
_TORCH |= {"double": "float64", "long int": "int64", "long": "int64", "int": "int32"}
_COMPILED = ("Torch-Compiled Region", "CompiledFunction", "triton_", "graph_")  # torch.compile's
# An operator and the shapes of its tensors with dimensions; None: any shapes.
_Key = tuple[str, tuple[tuple[int, ...], ...] | None]


class Profile:
    """One profile: `start`, steps, `look_for_lines`, one more step, `operators`."""

    def __init__(self) -> None:
        profiler: Any = importlib.import_module("torch.profiler")
        both = {profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA}
        activities = both & profiler.supported_activities()
        self._profile = profiler.profile(activities=activities, record_shapes=True)
        self._places: dict[_Key, Counter[SourceLocation]] = defaultdict(Counter)
        self._mode: Any = None

    def start(self) -> None:
        """Begin to time operators."""
        self._profile.start()

    def look_for_lines(self) -> None:
        """Stop timing, and record which lines call the operators of the next step."""
        self._profile.stop()
        _set_anomaly(True)
        self._mode = _mode(self._places)
        self._mode.__enter__()

    def operators(self, *, steps: int, step_time: float, count: int = 10) -> tuple[Operator, ...]:
        """Return the hottest operators; `step_time` is that of the profiled steps, in seconds."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            _set_anomaly(False)
        events = [event for event in self._profile.events() or () if _is_operator(event)]
        on_gpu = any(event.self_device_time_total > 0 for event in events)
        groups: dict[tuple[str, str, SourceLocation | None], list[Any]] = defaultdict(list)
        for event in events:
            groups[event.name, _shapes_text(event), self._place(event)].append(event)
        operators = [
            _operator(*key, group, steps=steps, step_time=step_time, on_gpu=on_gpu)
            for key, group in groups.items()
        ]
        return tuple(sorted(operators, key=lambda one: -one.seconds)[:count])

    def _place(self, event: Any) -> SourceLocation | None:
        """Return the line of an operator, of one that called it, or of one that it called.

        The profiler has no shapes for lists of tensors; there the name alone is matched.
        """
        callers = [event]
        while (parent := callers[-1].cpu_parent) is not None:
            callers.append(parent)
        near = [*callers, *event.cpu_children]
        exact = ((one.name, _shapes(one.input_shapes)) for one in near)
        for key in (*exact, *((one.name, None) for one in near)):
            if places := self._places.get(key):
                return places.most_common(1)[0][0]
        return None


def _set_anomaly(on: bool) -> None:
    """Switch anomaly mode, which keeps forward stacks for backward, without its check for NaN."""
    core: Any = importlib.import_module("torch._C")
    core.set_anomaly_enabled(on, False)


def _operator(
    name: str,
    shapes: str,
    place: SourceLocation | None,
    events: list[Any],
    *,
    steps: int,
    step_time: float,
    on_gpu: bool,
) -> Operator:
    kind = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    seconds = sum(getattr(event, kind) for event in events) / 1e6 / steps  # they are in us
    return Operator(
        name=name,
        shapes=shapes,
        seconds=seconds,
        share=seconds / step_time,
        calls=len(events) / steps,
        device="cuda" if on_gpu else "cpu",
        dtype=_dtype(events[0]),
        place=place,
    )


def _is_operator(event: Any) -> bool:
    """Whether an event is an operator on the host, not a named span or a kernel."""
    is_named = "::" in event.name or event.name.startswith(_COMPILED)
    return is_named and event.scope == 0 and "CPU" in str(event.device_type)


def _shapes(shapes: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of tensors with dimensions, also of those in lists of tensors."""
    nonempty: list[tuple[int, ...]] = []
    for shape in shapes or ():
        if shape and isinstance(shape[0], list | tuple):
            nonempty += _shapes(shape)
        elif shape:
            nonempty.append(tuple(shape))
    return tuple(nonempty)


def _shapes_text(event: Any) -> str:
    shapes = _shapes(event.input_shapes)
    text = " ".join("x".join(map(str, shape)) for shape in shapes[:4])
    return text + (f" and {len(shapes) - 4} more" if len(shapes) > 4 else "")


def _dtype(event: Any) -> str | None:
    names = [name for name in getattr(event, "input_dtypes", None) or () if name in _TORCH]
    return _TORCH[names[0]] if names else None


def _mode(places: dict[_Key, Counter[SourceLocation]]) -> Any:
    """Return a dispatch mode that records the line from which each operator is called."""
    import torch

    core: Any = importlib.import_module("torch._C")
    base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    def shapes(values: Iterable[Any]) -> list[Any]:
        return [
            list(value.shape)
            if isinstance(value, torch.Tensor)
            else shapes(value)
            if isinstance(value, list | tuple)
            else []
            for value in values
        ]

    class Lines(base):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            node = core._current_autograd_node()
            place = _of_node(node) if node is not None else here()
            if place is not None:
                name = func._schema.name
                places[name, _shapes(shapes([*args, *kwargs.values()]))][place] += 1
                places[name, None][place] += 1
            return func(*args, **kwargs)

    return Lines()


def _of_node(node: Any) -> SourceLocation | None:
    """Return the line of the project that created a node of the backward graph."""
    for text in reversed(node.metadata.get("traceback_", ())):
        for match in reversed(list(_LINE.finditer(text))):
            if is_own(match["file"]):
                return SourceLocation(file=os.path.abspath(match["file"]), line=int(match["line"]))
    return None
