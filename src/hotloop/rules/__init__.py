"""All rules, in the order of their ids. To add one: write its file and its golden cases."""

import importlib
import pkgutil
from dataclasses import replace

from hotloop.core.finding import Finding
from hotloop.rules.base import Rule

__all__ = ["ALL", "judged"]

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
_KINDS = {rule.label: rule.kind for rule in ALL}


def judged(finding: Finding) -> Finding:
    """Return a finding with the kind of its rule; KeyError where no rule has its label."""
    return replace(finding, kind=_KINDS[finding.rule])
