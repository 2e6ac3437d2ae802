"""A library that warns of its caller, and of its caller's caller, at many levels."""

import warnings


def warn(what: str) -> None:
    for level in range(1, 9):
        warnings.warn(f"{what}, level {level}", UserWarning, stacklevel=level)
