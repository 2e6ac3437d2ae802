"""Checks of the data against what the run will do with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.data.tokenising.char_corpus import TokenSet

if TYPE_CHECKING:
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["batch_beyond_data", "dropped_windows", "repeated_data", "unread_data"]

# Up to 4 epochs of the same data are as good as new data, by 40 they teach nothing more:
# Muennighoff et al., "Scaling Data-Constrained Language Models", arXiv 2305.16264, 2023.
EPOCHS_NOTE, EPOCHS_WARN = 4, 40
DROPPED_NOTE, DROPPED_WARN = 0.05, 0.20  # of an epoch


def repeated_data(case: PlannedRun) -> Finding | None:
    """Tell how often the run reads the same text: the number of steps does not say so."""
    if case.epochs <= EPOCHS_NOTE:
        return None
    feed, words = case.parts.feed, _words(case)
    once = feed.steps_per_epoch
    return Finding(
        rule="X1 repeated_data",
        claim=f"{case.parts.steps:,} steps read the training {words.what} {case.epochs:.4g} times: "
        f"once takes {once:,} step{'s' * (once > 1)}",
        severity="warn" if case.epochs > EPOCHS_WARN else "note",
        evidence={
            f"training {words.what}": f"{words.size}{len(feed.samples):,} {words.samples}"
            f"{words.each}",
            "threshold": f"up to {EPOCHS_NOTE} times are as good as new {words.what}, by "
            f"{EPOCHS_WARN} it teaches nothing more (arXiv 2305.16264)",
        },
        remedies=[
            Remedy(text=f"training.max_steps={EPOCHS_NOTE * once} reads it {EPOCHS_NOTE} times"),
            Remedy(text="training.patience=5 stops when validation no longer improves"),
            Remedy(text=f"use more {words.what}"),
        ],
    )


def unread_data(case: PlannedRun) -> Finding | None:
    """Tell that a part of the training text is never read."""
    if case.epochs >= 1:
        return None
    return Finding(
        rule="X5 dropped_rows",
        claim=f"{case.parts.steps:,} steps read {case.epochs:.1%} of the training "
        f"{_words(case).what}; all of it "
        f"once takes {case.parts.feed.steps_per_epoch:,} steps",
        severity="note",
        remedies=[Remedy(text="training.epochs=1 training.max_steps=null reads all of it once")],
    )


def dropped_windows(case: PlannedRun) -> Finding | None:
    """Tell what data.drop_last costs."""
    feed = case.parts.feed
    left_out = len(feed.samples) - feed.per_epoch
    share = left_out / len(feed.samples)
    if share < DROPPED_NOTE:
        return None
    return Finding(
        rule="X5 dropped_rows",
        claim=f"data.drop_last leaves {left_out:,} of {len(feed.samples):,} "
        f"{_words(case).samples} ({share:.0%}) out of each epoch",
        severity="warn" if share >= DROPPED_WARN else "note",
        remedies=[Remedy(text="data.drop_last=false makes a smaller last step of them")],
    )


def batch_beyond_data(case: PlannedRun) -> Finding | None:
    """Tell that a batch cannot be filled."""
    feed, words = case.parts.feed, _words(case)
    there = len(feed.samples)
    if feed.batch_size <= there:
        return None
    return Finding(
        rule="C4 requested_not_effective",
        claim=f"training.batch_size={feed.batch_size} is not in effect: the {words.what} has "
        f"only {there:,} {words.samples}, and every step has those",
        severity="warn",
        remedies=[
            Remedy(text=f"use more {words.what}, {words.shorter}or a smaller training.batch_size")
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What the data of a recipe are called."""

    what: str = "data"
    samples: str = "rows"
    size: str = ""  # before their number
    each: str = ""  # after it
    shorter: str = ""  # what makes more samples of them


def _words(case: PlannedRun) -> _Words:
    data = case.parts.data
    if not isinstance(data, TokenSet):
        return _Words()
    context = case.parts.request.config.model.context
    return _Words(
        what="text",
        samples="windows",
        each=f" of {context}",
        size=f"{len(data.train):,} characters, ",
        shorter="a shorter model.context ",
    )
