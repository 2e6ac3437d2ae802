"""On the PYTHONPATH of the processes of `make rehearse-gpu`: what a card without values needs.

Zeros are read from the card. Otherwise a number is what its memory held last: a boolean index asks
for as many rows as the bytes of a mask happen to spell, which can be 64 GiB of them.

hotloop's checks of values are taken out: that parameters learn, that the loss scale holds, and the
metrics of a validation, which divide by what was counted.

cuDNN runs its own code there and finds no card. It is switched off as soon as torch has loaded its
switch; `TORCH_CUDNN_SDPA_DEPRIORITIZED=1` does the same for attention.
"""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _no_cudnn(_: ModuleType) -> None:
    sys.modules["torch"]._C._set_cudnn_enabled(False)


def _no_metrics(module: Any) -> None:
    evaluate = module.evaluate

    @wraps(evaluate)
    def without(session: Any, *arguments: Any, **more: Any) -> Any:
        if (judge := session.job.judge) is not None:
            judge = replace(judge, figures=lambda _: {}, score=None, remark=lambda _: None)
            session.job = replace(session.job, judge=judge)
        return evaluate(session, *arguments, **more)

    module.evaluate = without


def _no_collapse(module: Any) -> None:
    module.refuse_collapse = lambda _: None


def _no_dead(module: Any) -> None:
    module.Gradients.refuse_dead = lambda _: None


AFTER: dict[str, Callable[[ModuleType], None]] = {  # the import of a module
    "torch.backends.cudnn": _no_cudnn,
    "hotloop.engine.evaluate": _no_metrics,
    "hotloop.engine.step": _no_collapse,
    "hotloop.models.trainable_parameters": _no_dead,
}


class _Then(Loader):
    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name not in AFTER:
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, AFTER[name])
        return spec


sys.meta_path.insert(0, _Finder())
if (read_zeros := getattr(ctypes.CDLL(None), "nullcard_read_zeros", None)) is not None:
    read_zeros(1)
