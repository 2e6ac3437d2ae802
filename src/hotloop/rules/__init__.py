"""All rules, in the order of their ids. To add one: write its file and its golden cases."""

import importlib
import pkgutil

from hotloop.rules.base import Rule

__all__ = ["ALL"]

ALL: tuple[Rule, ...] = tuple(
    sorted(
        (
            importlib.import_module(f"{__name__}.{found.name}").RULE
            for found in pkgutil.iter_modules(__path__)
            if found.name != "base"
        ),
        key=lambda rule: (rule.id[0], int(rule.id[1:])),
    )
)
