"""All rules, in the order of their ids. To add a rule, write its file and its golden cases."""

import importlib
import pkgutil
import re
from dataclasses import replace

from hotloop.core.finding import Finding
from hotloop.rules.base import Rule

__all__ = ["ALL", "judged"]

_IS_RULE = re.compile(r"\.[a-z]\d+_\w+$")  # rules/host/h1_launch_bound.py


def _of_file(name: str) -> Rule:
    """Return the rule of a module, whose name and docstring give its id, its name and its page."""
    module = importlib.import_module(name)
    rule: Rule = module.RULE
    id, _, rest = name.rpartition(".")[2].partition("_")
    return replace(rule, id=id.upper(), name=rest, page=module.__doc__ or "")


ALL: tuple[Rule, ...] = tuple(
    sorted(
        (
            _of_file(module.name)
            for module in pkgutil.walk_packages(__path__, f"{__name__}.")
            if _IS_RULE.search(module.name)
        ),
        key=lambda rule: (rule.id[0], int(rule.id[1:])),
    )
)
_BY_LABEL = {rule.label: rule for rule in ALL}


def judged(finding: Finding) -> Finding:
    """Return a finding with the kind of its rule, and `known` if it lacks that.

    Raises KeyError if no rule has its label.
    """
    rule = _BY_LABEL[finding.rule]
    return replace(finding, kind=rule.kind, known=finding.known or rule.known)
