"""Runs programs on the null card, and reads what they did."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.paths import ROOT

from hotloop.nullcard import counts as on_card
from hotloop.nullcard.cards import CARDS
from hotloop.nullcard.counts import CardCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.preloaded import Preloaded

__all__ = ["NullCardError", "Ran", "environment", "python", "run"]

PYTHON = "HOTLOOP_NULLCARD_PYTHON"


class NullCardError(Exception):
    """A program did not run on the null card; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A script that ended well: what it put into `facts`, what it printed, and its counts."""

    facts: Mapping[str, Any]
    stdout: str
    counts: CardCounts


def python() -> str:
    """Return the interpreter with torch's CUDA build. Raises NullCardError if none is named."""
    if not (path := os.environ.get(PYTHON)):
        raise NullCardError(
            f"{PYTHON} names no interpreter with torch's CUDA build: run `make test-nullcard`"
        )
    return path


def environment(card: str, memory: int | None = None) -> dict[str, str]:
    """Return the variables under which a program finds `card`, a key of CARDS.

    `memory` (MiB) replaces the card's. Raises NullCardError.
    """
    if card not in CARDS:
        raise NullCardError(f"there is no card {card!r}; there are: {', '.join(CARDS)}")
    return on_card.environment(CARDS[card], memory)


def run(
    card: str,
    script: str,
    *,
    memory: int | None = None,
    process: Preloaded | None = None,
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Run a Python script on a card, from `process` (which has torch already) or from the start.

    The script has `counted`, `counts`, `reset` and `ordered` of nullcard/counts.py, and a dict
    `facts` that comes back. `variables` are added to its environment. Raises NullCardError, with
    what it said, if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "script.py", Path(folder) / "answer.json"
        source.write_text(script)
        module = "tests.nullcard.script"
        env = {**os.environ, **environment(card, memory), **(variables or {})}
        if process is not None:
            ended = process.run(source, answer, module=module, env=env)
        else:
            words = [python(), "-m", module, str(source), str(answer)]
            ended = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
        if ended.returncode or not answer.exists():
            raise NullCardError(f"exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        said = json.loads(answer.read_text())
    read = CardCounts.read(json.dumps(said["counts"]))
    return Ran(facts=said["facts"], stdout=ended.stdout, counts=read)
