"""On the PYTHONPATH of a process on the null card: torch's own convolutions in place of cuDNN's.

cuDNN runs its own code there and finds no card. It is switched off as soon as torch has loaded its
switch; `TORCH_CUDNN_SDPA_DEPRIORITIZED=1` does the same for attention.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

SWITCH = "torch.backends.cudnn"


class _Off(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        sys.modules["torch"]._C._set_cudnn_enabled(False)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != SWITCH:
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _Off(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder())
