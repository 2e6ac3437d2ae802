"""The neighbour that whoami.py imports: says who asked."""

import inspect
import sys


def asked_by() -> tuple[str, str]:
    """Return the caller's function and module names, by two ways of looking."""
    return inspect.stack()[1].function, sys._getframe(1).f_globals["__name__"]


def main_names() -> list[str]:
    """Return the names in `__main__` that Python itself puts there."""
    return sorted(name for name in vars(sys.modules["__main__"]) if name.startswith("__"))
