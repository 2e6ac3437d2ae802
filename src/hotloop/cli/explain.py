"""hotloop explain: a guide to a symptom, or the page of a technique or of a doctor's rule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hotloop import rules, techniques
from hotloop.cli.guides.pages import guides, title
from hotloop.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(prog="hotloop explain", description=__doc__)
    add = parser.add_argument
    add("id", nargs="*", metavar="ID", help="out-of-memory, fused-adamw, D13 or tokenize_hot")
    words = " ".join(parser.parse_args(args).id)
    print(page_of(words) if words else listing(), end="")
    return 0


def listing() -> str:
    """Return the names of the guides, and where the other names are listed."""
    width = max(map(len, guides()))
    return (
        "".join(f"{name:<{width}}  {title(name)}\n" for name in guides())
        + "hotloop explain NAME shows a guide; "
        "hotloop techniques and hotloop rules list the other pages\n"
    )


def page_of(words: str) -> str:
    """Return the page of a guide, a technique, or a rule by its id, its name, or both.

    Raises UsageError for an unknown name.
    """
    if words in guides():
        return guides()[words]
    for rule in rules.ALL:
        if words.lower() in (rule.id.lower(), rule.name, rule.label.lower()):
            return f"{rule.label}: {rule.page}"
    known = {technique.id: technique for technique in techniques.ALL}
    if words not in known:
        names = [*guides(), *known, *(rule.name for rule in rules.ALL)]
        near = did_you_mean(words, names)
        raise UsageError(
            f"no guide, technique or rule is called {words!r}{near} "
            "(hotloop explain, hotloop techniques and hotloop rules list them)"
        )
    technique = known[words]
    choices = "".join(
        f"Choice {name}: {', '.join(map(str, values))} (the first is the default)\n"
        for name, values in technique.choices.items()
    )
    return f"{technique.id}: {technique.page}{choices}"
