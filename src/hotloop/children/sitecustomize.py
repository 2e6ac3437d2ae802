"""Lets child processes of an observed script be observed: Python runs this file when it starts.

It stands first on PYTHONPATH of the children. It imports nothing of hotloop until the child imports
torch, and it runs the sitecustomize that it hides.
"""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = str(Path(__file__).parent)


class _Waiting:
    """Sees the first import of torch; finds nothing itself."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Start hotloop in this process just before torch is imported."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            import hotloop.auto

            hotloop.auto.in_child()
        except ImportError:  # another environment: there is nothing to observe with
            return None
        except Exception as error:  # noqa: BLE001 - told; the child goes on without us
            fault = f"{type(error).__name__}: {error}"
            print(f"hotloop: a child process is not observed: {fault}", file=sys.stderr)
        # importlib's walk through the finders is past the one that was just added.
        specs = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        return next((spec for spec in specs if spec is not None), None)


def _chain() -> None:
    """Run the sitecustomize that this one hides."""
    rest = [path for path in sys.path if path != _HERE]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Waiting())
_chain()
