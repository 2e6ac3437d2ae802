"""Checks of the data against what the run will do with them."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.data.tokens import TokenSet
from hotloop.recipes.sources import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.checks.case import Case

__all__ = [
    "batch_beyond_data",
    "cut_text",
    "dropped_windows",
    "leaked_lines",
    "repeated_data",
    "repeated_lines",
    "small_validation",
    "unread_data",
    "unseen_characters",
]

# Up to 4 epochs of the same data are as good as new data, by 40 they teach nothing more:
# Muennighoff et al., "Scaling Data-Constrained Language Models", arXiv 2305.16264, 2023.
EPOCHS_NOTE, EPOCHS_WARN = 4, 40
DROPPED_NOTE, DROPPED_WARN = 0.05, 0.20  # of an epoch
UNSEEN_WARN = 0.001  # of the validation: one can cost ten nats, which moves the mean by 0.01
READ = 4_000_000  # characters of a part that are looked at for repeated lines
# Nats, of the loss of single characters: 1.33 over 5,120 characters of Tiny Shakespeare after 150
# steps of preset=cpu; means over windows of 128 spread as if characters were independent.
SPREAD = 1.3
NOISE_NOTE, NOISE_WARN = 0.01, 0.03  # nats
LONG_LINE = 40  # characters: shorter lines repeat in any text
REPEATED_NOTE, REPEATED_WARN = 0.10, 0.30  # of the characters in long lines


def repeated_data(case: Case) -> Finding | None:
    """Tell how often the run reads the same text: the number of steps does not say so."""
    if case.epochs <= EPOCHS_NOTE:
        return None
    feed = case.parts.feed
    once = feed.steps_per_epoch
    return Finding(
        rule="X1 repeated_data",
        claim=f"{case.parts.steps:,} steps read the training text {case.epochs:.4g} times: once "
        f"takes {once:,} step{'s' * (once > 1)}",
        severity="warn" if case.epochs > EPOCHS_WARN else "note",
        evidence={
            "training text": f"{len(_text(case).train):,} characters, {len(feed.samples):,} "
            f"windows of {case.parts.request.config.model.context}",
            "threshold": f"up to {EPOCHS_NOTE} times are as good as new text, by {EPOCHS_WARN} it "
            "teaches nothing more (arXiv 2305.16264)",
        },
        remedies=[
            Remedy(text=f"training.max_steps={EPOCHS_NOTE * once} reads it {EPOCHS_NOTE} times"),
            Remedy(text="training.patience=5 stops when validation no longer improves"),
            Remedy(text="use more text"),
        ],
    )


def unread_data(case: Case) -> Finding | None:
    """Tell that a part of the training text is never read."""
    if case.epochs >= 1:
        return None
    return Finding(
        rule="X5 dropped_rows",
        claim=f"{case.parts.steps:,} steps read {case.epochs:.1%} of the training text; all of it "
        f"once takes {case.parts.feed.steps_per_epoch:,} steps",
        severity="note",
        remedies=[Remedy(text="training.epochs=1 training.max_steps=null reads all of it once")],
    )


def cut_text(case: Case) -> Finding | None:
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


def dropped_windows(case: Case) -> Finding | None:
    """Tell what data.drop_last costs."""
    feed = case.parts.feed
    left_out = len(feed.samples) - feed.per_epoch
    share = left_out / len(feed.samples)
    if share < DROPPED_NOTE:
        return None
    return Finding(
        rule="X5 dropped_rows",
        claim=f"data.drop_last leaves {left_out:,} of {len(feed.samples):,} windows ({share:.0%}) "
        "out of each epoch",
        severity="warn" if share >= DROPPED_WARN else "note",
        remedies=[Remedy(text="data.drop_last=false makes a smaller last step of them")],
    )


def batch_beyond_data(case: Case) -> Finding | None:
    """Tell that a batch cannot be filled."""
    feed = case.parts.feed
    there = len(feed.samples)
    if feed.batch_size <= there:
        return None
    return Finding(
        rule="C4 requested_not_effective",
        claim=f"training.batch_size={feed.batch_size} is not in effect: the text has only "
        f"{there:,} windows, and every step has those",
        severity="warn",
        remedies=[
            Remedy(text="use more text, a shorter model.context or a smaller training.batch_size")
        ],
    )


def unseen_characters(case: Case) -> Finding | None:
    """Tell that validation asks for characters the model cannot know."""
    data = _text(case)
    if not (count := data.about["unseen"]):
        return None
    share = count / len(data.valid)
    return Finding(
        rule="X2 not_what_you_think",
        claim=f"{100 * share:.2g}% of the validation part ({count:,}) are characters that never "
        "stand in the training part: no model can predict them",
        severity="warn" if share >= UNSEEN_WARN else "note",
        evidence={
            "most often": ", ".join(f"{text!r} {n}x" for text, n in data.about["most_unseen"][:5])
        },
        remedies=[Remedy(text="use text of one kind for both parts: data.validation_share")],
    )


def small_validation(case: Case) -> Finding | None:
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


def repeated_lines(case: Case) -> Finding | None:
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


def leaked_lines(case: Case) -> Finding | None:
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


def _text(case: Case) -> TokenSet:
    """Return the data of a recipe of characters: the only one whose checks these are."""
    assert isinstance(case.parts.data, TokenSet), type(case.parts.data)
    return case.parts.data


def _long_lines(case: Case, tokens: NDArray[np.uint16]) -> list[str]:
    text = _text(case).vocabulary.decode(tokens[:READ])
    return [line for line in map(str.strip, text.split("\n")) if len(line) >= LONG_LINE]


def _share(some: Sequence[str], lines: Sequence[str]) -> float:
    return sum(map(len, some)) / (sum(map(len, lines)) or 1)


def _example(lines: Sequence[str], case: Case) -> dict[str, str]:
    (most, times), whole = Counter(lines).most_common(1)[0], len(_text(case).train)
    return {
        "most often": f"{times}x {most[:60]!r}",
        "looked at": f"the first {min(READ, whole):,} of {whole:,} training characters",
    }
