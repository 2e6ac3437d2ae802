"""Removes one cost from a training script in this process by patching PyTorch.

For short child runs, which show the largest possible gain. The script must not have used torch
yet; the patches can be undone.
"""

from __future__ import annotations

import builtins
import fnmatch
import functools
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.process.import_hooks import ImportHooks

__all__ = ["Patches", "no_logging", "no_optimizer", "no_writing", "silence"]

_ABSENT = object()
# Module, class in it ("": its functions), names; a trailing * matches all names with that prefix.
_TALKERS = (
    ("safetensors.torch", "", ("save_file", "save_model")),
    ("tqdm.std", "tqdm", ("display", "refresh")),
    ("torch.utils.tensorboard.writer", "SummaryWriter", ("add_*", "flush")),
    ("tensorboardX.writer", "SummaryWriter", ("add_*", "flush")),
    ("wandb", "", ("log", "save")),
    ("mlflow", "", ("log_*",)),
    ("matplotlib.figure", "Figure", ("savefig",)),
)
_SAVERS = ("safetensors.torch",)
_WRITING = frozenset("wax")


class Patches:
    """The patched attributes, so that they can be restored."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute of a module or class."""
        self._old.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restore all attributes, the last one first."""
        while self._old:
            owner, name, value = self._old.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def no_optimizer(patches: Patches) -> None:
    """Make every optimizer's step do nothing but call its closure. Hooks still fire."""
    import torch

    original = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def nothing(self: Any, closure: Callable[[], Any] | None = None, **_: object) -> Any:
            with torch.enable_grad():
                return closure() if closure else None

        return original(nothing)

    patches.put(torch.optim.Optimizer, "profile_hook_step", staticmethod(profile_hook_step))


def no_logging(patches: Patches, arrivals: ImportHooks) -> None:
    """Silence print, stdout, logging, progress bars, trackers, plots and saving."""
    import torch

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    logging.disable(logging.CRITICAL)
    patches.put(builtins, "print", _nothing)
    patches.put(torch, "save", _nothing)
    for module, owner, names in _TALKERS:
        arrivals.when(module, functools.partial(_silence, patches, module, owner, names))


def silence(patches: Patches) -> None:
    """Silence print, logging, and the progress bars, trackers and plots that are loaded."""
    patches.put(builtins, "print", _nothing)
    patches.put(logging.Logger, "handle", _nothing)
    for module, owner, names in _TALKERS:
        if module in sys.modules and module not in _SAVERS:
            _silence(patches, module, owner, names)


def _nothing(*_: object, **__: object) -> None:
    return None


def _silence(patches: Patches, module: str, owner: str, names: tuple[str, ...]) -> None:
    import importlib

    holder: Any = importlib.import_module(module)
    if owner and (holder := getattr(holder, owner, None)) is None:
        return
    for name in names:
        for match in fnmatch.filter(list(vars(holder)), name) if "*" in name else [name]:
            if callable(getattr(holder, match, None)):
                patches.put(holder, match, _nothing)


def no_writing(patches: Patches, below: str) -> None:
    """Redirect writes to files below a folder to the null device; the files stay as they are.

    Files opened for both reading and writing are left alone. Call it after training has begun: a
    script may read files that it wrote before.
    """
    real_open, root = builtins.open, os.path.join(os.path.realpath(below), "")

    @functools.wraps(real_open)
    def open_nowhere(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if _WRITING & set(mode) and "+" not in mode and isinstance(file, str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(file))
            if path.startswith(root):
                file, mode = os.devnull, mode.replace("x", "w")
        return real_open(file, mode, *args, **kwargs)

    patches.put(builtins, "open", open_nowhere)
    patches.put(io, "open", open_nowhere)  # what pathlib calls
