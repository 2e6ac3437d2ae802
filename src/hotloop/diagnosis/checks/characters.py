"""Checks of a text of characters against what the run will do with it."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from hotloop.config.layers import COMMAND_LINE
from hotloop.core.finding import Finding, Remedy
from hotloop.data.tokenising.char_corpus import TokenSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["cut_text", "leaked_lines", "repeated_lines", "small_validation", "unseen_characters"]

UNSEEN_WARN = 0.001  # of the validation: one can cost ten nats, which moves the mean by 0.01
READ = 4_000_000  # characters of a part that are looked at for repeated lines
# Nats, of the loss of single characters: 1.33 over 5,120 characters of Tiny Shakespeare after 150
# steps of preset=cpu; means over windows of 128 spread as if characters were independent.
SPREAD = 1.3
NOISE_NOTE, NOISE_WARN = 0.01, 0.03  # nats
LONG_LINE = 40  # characters: shorter lines repeat in any text
REPEATED_NOTE, REPEATED_WARN = 0.10, 0.30  # of the characters in long lines


def cut_text(case: PlannedRun) -> Finding | None:
    """Tell that a limit nobody typed leaves text out."""
    limit = case.parts.request.config.data.max_chars
    origin = case.parts.request.origins["data.max_chars"]
    text = _text(case)
    read = len(text.train) + len(text.valid)
    if limit is None or read < limit or origin == COMMAND_LINE:
        return None
    return Finding(
        rule="X5 dropped_rows",
        claim=f"no more than the first {read:,} characters are read: "
        f"data.max_chars={limit} ({origin})",
        severity="note",
        remedies=[Remedy(text="data.max_chars=null reads the whole text")],
    )


def unseen_characters(case: PlannedRun) -> Finding | None:
    """Tell that validation asks for characters the model cannot know."""
    data = _text(case)
    if not (count := data.about["unseen"]):
        return None
    share = count / len(data.valid)
    return Finding(
        rule="R11 unseen_characters",
        claim=f"{100 * share:.2g}% of the validation part ({count:,}) are characters that never "
        "stand in the training part: no model can predict them",
        severity="warn" if share >= UNSEEN_WARN else "note",
        evidence={
            "most often": ", ".join(f"{text!r} {n}x" for text, n in data.about["most_unseen"][:5])
        },
        remedies=[Remedy(text="use text of one kind for both parts: data.validation_share")],
    )


def small_validation(case: PlannedRun) -> Finding | None:
    """Tell that the validation loss rests on few characters."""
    parts, context = case.parts, case.parts.request.config.model.context
    read = len(parts.job.valid)
    if case.training.eval_batches is not None:
        read = min(read, case.training.eval_batches * parts.plan.micro_batch)
    targets = read * context
    noise = SPREAD / math.sqrt(targets)
    if noise < NOISE_NOTE or parts.request.config.objective != "next-char":
        return None
    return Finding(
        rule="R2 small_validation",
        claim=f"a validation reads {targets:,} characters: its loss is known to about "
        f"{noise:.1g} nats, and smaller differences are chance",
        severity="warn" if noise >= NOISE_WARN else "note",
        remedies=[
            Remedy(text="raise data.validation_share or training.eval_batches, or use more text")
        ],
    )


def repeated_lines(case: PlannedRun) -> Finding | None:
    """Tell that much of the training text stands in it more than once."""
    lines, seen = _long_lines(case, _text(case).train), set[str]()
    again: list[str] = []
    for line in lines:
        (again.append if line in seen else seen.add)(line)
    share = _share(again, lines)
    if share < REPEATED_NOTE:
        return None
    return Finding(
        rule="X1 repeated_data",
        claim=f"{share:.0%} of the training text, in lines of {LONG_LINE} characters or more, has "
        "stood there before",
        severity="warn" if share >= REPEATED_WARN else "note",
        evidence=_example(lines, case),
        remedies=[Remedy(text="take repeated lines or files out of the text", effort="code edit")],
    )


def leaked_lines(case: PlannedRun) -> Finding | None:
    """Tell that validation asks what training has shown."""
    known = set(_long_lines(case, _text(case).train))
    lines = _long_lines(case, _text(case).valid)
    leaked = [line for line in lines if line in known]
    share = _share(leaked, lines)
    if share < REPEATED_NOTE:
        return None
    return Finding(
        rule="X1 repeated_data",
        claim=f"{share:.0%} of the validation text, in lines of {LONG_LINE} characters or more, "
        "stands in the training text as well: the validation loss is too good",
        severity="warn",
        evidence=_example(leaked, case),
        remedies=[Remedy(text="take repeated lines or files out of the text", effort="code edit")],
    )


def _text(case: PlannedRun) -> TokenSet:
    """Return the data of a recipe of characters: the only one whose checks these are."""
    assert isinstance(case.parts.data, TokenSet), type(case.parts.data)
    return case.parts.data


def _long_lines(case: PlannedRun, tokens: NDArray[np.uint16]) -> list[str]:
    text = _text(case).vocabulary.decode(tokens[:READ])
    return [line for line in map(str.strip, text.split("\n")) if len(line) >= LONG_LINE]


def _share(some: Sequence[str], lines: Sequence[str]) -> float:
    return sum(map(len, some)) / (sum(map(len, lines)) or 1)


def _example(lines: Sequence[str], case: PlannedRun) -> dict[str, str]:
    (most, times), whole = Counter(lines).most_common(1)[0], len(_text(case).train)
    return {
        "most often": f"{times}x {most[:60]!r}",
        "looked at": f"the first {min(READ, whole):,} of {whole:,} training characters",
    }
