"""State dicts that a script keeps: whether later updates write into them.

A state dict holds the parameters' own memory. Kept without a copy, it changes with each update.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["KeptStates"]

_KEPT, _COMPARED = 32, 16  # state dicts that are watched; tensors of each


@dataclass(frozen=True, slots=True)
class _Taken:
    """A state dict, and when it was taken."""

    state: weakref.ref[Any]
    module: weakref.ref[Any]
    place: SourceLocation
    updates: int  # before it was taken


class KeptStates(Probe):
    """Watches the state dicts that outlive an update."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._taken: deque[_Taken] = deque(maxlen=_KEPT)
        self._aliased: dict[SourceLocation, None] = {}

    def on_torch_imported(self) -> None:
        """Install the hooks of state_dict and load_state_dict."""
        from torch.nn import Module

        replace_ = self._observer.hooks.replace
        replace_(Module, "state_dict", self._taking(Module.state_dict))
        replace_(Module, "load_state_dict", self._loading(Module.load_state_dict))

    def after_step(self, updates: int) -> None:
        """Compare the state dicts that are still kept with the live parameters."""
        self._compare(updates)

    def add_to(self, case: Case) -> Case:
        """Add the places of state dicts that were written into."""
        self._compare(self._observer.hooks.updates)
        return replace(case, process=replace(case.process, states_aliased=tuple(self._aliased)))

    def _taking(self, old: Callable[..., Any]) -> Callable[..., Any]:
        from torch.compiler import is_dynamo_compiling as is_compiling

        hooks = self._observer.hooks

        @functools.wraps(old)
        def state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            state = old(module, *args, **kwargs)
            # A module passes the dict that it fills on to its parts.
            if not args and kwargs.get("destination") is None and not is_compiling():
                hooks.quietly(self._note, module, state)
            return state

        return state_dict

    def _loading(self, old: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self._observer.hooks

        @functools.wraps(old)
        def load_state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            hooks.quietly(self._compare, hooks.updates)
            return old(module, *args, **kwargs)

        return load_state_dict

    def _note(self, module: Any, state: Any) -> None:
        hooks = self._observer.hooks
        if (
            threading.get_ident() != hooks.thread or type(state) is dict
        ):  # it has no weak references
            return
        if (place := here()) is not None and place not in self._aliased:
            references = weakref.ref(state), weakref.ref(module)
            self._taken.append(_Taken(*references, place, hooks.updates))

    def _compare(self, updates: int) -> None:
        for taken in [taken for taken in self._taken if taken.updates < updates]:
            state, module = taken.state(), taken.module()
            if state is None or module is None:
                self._taken.remove(taken)
            elif _shared(state, module):
                self._aliased[taken.place] = None
                self._taken.remove(taken)


def _shared(state: Any, module: Any) -> bool:
    """Whether tensors of a state dict lie in the memory of trainable parameters."""
    live = {_address(parameter) for parameter in module.parameters() if parameter.requires_grad}
    kept = {_address(value) for value in list(state.values())[:_COMPARED]}
    return bool(live & kept - {0})


def _address(value: Any) -> int:
    """Return where a tensor lies in memory; 0: nowhere, as of meta tensors."""
    try:
        return int(value.data_ptr())
    except (AttributeError, RuntimeError):  # no tensor, or one without memory of its own
        return 0


hide(globals())
