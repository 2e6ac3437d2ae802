"""hotloop data: what there is to train on, by verbs of its own. A verb loads when it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]

VERBS = {
    "find": "data sets on this machine, and what names them: hotloop data find [--root DIR]",
    "tokenize": "rows to packed tokens, once: hotloop data tokenize FILES --tokenizer T --out DIR",
    "stats": "lengths, padding, copies, labels: hotloop data stats DIR | FILES --tokenizer DIR",
}


def run(args: Sequence[str]) -> int:
    """Run a verb of `hotloop data`; raise UsageError for an unknown one."""
    verb, *rest = args or [""]
    if verb in ("", "-h", "--help", "help"):
        verbs = "\n".join(f"  {name:<10} {text}" for name, text in VERBS.items())
        print(f"usage: hotloop data VERB [options] ...\n\n{verbs}\n")
        print("hotloop data VERB --help says more.")
        return 0 if args else 2
    if verb not in VERBS:
        near = did_you_mean(verb, VERBS)
        raise UsageError(f"hotloop data has no {verb!r}{near} (see hotloop data --help)")
    code: int = importlib.import_module(f"{__name__}_{verb}").run(rest)
    return code
