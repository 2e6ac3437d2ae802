"""hotloop explain: the page of a technique or of a doctor's rule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hotloop import rules, techniques
from hotloop.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(prog="hotloop explain", description=__doc__)
    parser.add_argument("id", nargs="+", metavar="ID", help="fused-adamw, D13 or tokenize_hot")
    words = " ".join(parser.parse_args(args).id)
    print(page_of(words), end="")
    return 0


def page_of(words: str) -> str:
    """Return the page of what `words` name: an id, a rule's name, or both as findings show them.

    Raises UsageError when nothing is called that.
    """
    for rule in rules.ALL:
        if words.lower() in (rule.id.lower(), rule.name, rule.label.lower()):
            return f"{rule.label}: {rule.page}"
    known = {technique.id: technique for technique in techniques.ALL}
    if words not in known:
        names = [*known, *(rule.name for rule in rules.ALL)]
        near = did_you_mean(words, names)
        raise UsageError(
            f"no technique or rule is called {words!r}{near} (hotloop techniques, hotloop rules)"
        )
    technique = known[words]
    choices = "".join(
        f"Choice {name}: {', '.join(map(str, values))} (the first is the default)\n"
        for name, values in technique.choices.items()
    )
    return f"{technique.id}: {technique.page}{choices}"
