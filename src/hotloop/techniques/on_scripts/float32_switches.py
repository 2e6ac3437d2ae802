"""Sets torch's precision of float32 products without mixing its two APIs in a script.

torch raises if its older switch is read after a newer one was set, or vice versa. Therefore, when a
script reads or sets any of these switches, hotloop first undoes its own change, so that the script
finds all switches as they would be without hotloop.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

import torch

from hotloop.core.package import INSIDE
from hotloop.machine.float32_precision import PrecisionSwitches, precision
from hotloop.session.session import ScriptSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from hotloop.session.session import TechniqueTarget

__all__ = ["in_effect", "turn"]

_MIXED = "the script mixes torch's older and newer switches of float32 precision: left as they are"

# The functions that the Python wrappers around the switches look up in torch._C at each call.
_SWITCHES = (
    "_get_float32_matmul_precision",
    "_set_float32_matmul_precision",
    "_get_cublas_allow_tf32",
    "_set_cublas_allow_tf32",
    "_get_fp32_precision_getter",
    "_set_fp32_precision_setter",
)
_TORCH = os.path.dirname(torch.__file__) + os.sep
_WRAPPERS = (f"{_TORCH}__init__.py", f"{_TORCH}backends{os.sep}")


class _Held:
    """A precision that hotloop sets until other code reads or sets a switch; then it is undone.

    `touched` is called with the name of the torch._C function that was called.
    """

    def __init__(self, to: str, before: PrecisionSwitches, touched: Callable[[str], None]) -> None:
        self._before, self._touched = before, touched
        self._core: Any = torch._C
        torch.set_float32_matmul_precision(to)
        self._plain = {name: getattr(self._core, name) for name in _SWITCHES}
        self._hooks = {name: self._hook(name) for name in _SWITCHES}
        for name, hook in self._hooks.items():
            setattr(self._core, name, hook)

    def back_out(self) -> None:
        """Remove the hooks that are still ours, and restore the switches."""
        for name, hook in self._hooks.items():
            if getattr(self._core, name) is hook:
                setattr(self._core, name, self._plain[name])
        self._before.put_back()

    def _hook(self, name: str) -> Callable[..., Any]:
        plain = self._plain[name]

        @functools.wraps(plain)
        def called(*args: Any) -> Any:
            if getattr(self._core, name) is self._hooks[name] and not _is_ours(sys._getframe(1)):
                self.back_out()
                self._touched(name)
            return plain(*args)

        return called


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the caller is hotloop or torch itself (a compiler's cache), and not a script."""
    while frame is not None and frame.f_code.co_filename.startswith(_WRAPPERS):
        frame = frame.f_back
    return frame is None or frame.f_code.co_filename.startswith((_TORCH, INSIDE))


def turn(session: TechniqueTarget, id: str, to: str) -> int:
    """Set torch's float32 matmul precision for the technique `id`; return 1 if it changed, else 0.

    In a script the change is undone when the script reads or sets a switch itself.
    """
    before = PrecisionSwitches.now()
    if before is None and isinstance(session, ScriptSession):
        session.refused = _MIXED
    if before is None or before.older == to:
        return 0
    if not isinstance(session, ScriptSession):
        torch.set_float32_matmul_precision(to)
        session.undo[id] = before.put_back
        return 1

    def touched(name: str) -> None:
        session.undo.pop(id, None)
        session.facts[id] = (
            f"the script itself asked for a switch of float32 precision (torch._C.{name}): "
            "it found all of them as without hotloop, and they stay so"
        )

    session.facts.pop(id, None)
    session.undo[id] = _Held(to, before, touched).back_out
    return 1


def in_effect(session: TechniqueTarget, id: str, to: str) -> bool:
    """Whether `turn` is in effect; if the script undid it, set `session.refused` to the reason."""
    if id in session.undo and precision() == to:
        return True
    if isinstance(session, ScriptSession) and id in session.facts:
        session.refused = session.facts[id]
    return False
