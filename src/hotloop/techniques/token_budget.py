"""Token budget: few long samples or many short ones make a batch, so that steps cost alike.

What: sorts 50 batches of the script's random order at a time by length, as length-bucketing does,
    and cuts them so that rows times width is at most a budget: the least with which the batches of
    an epoch stay as many as they were. tokens=N asks for a larger one, and so for fewer batches.
    There are never more than the loop may count on, so no sample is left out; each comes once an
    epoch. Padding is cut as dynamic-padding cuts it where the script pads all rows to one width.
Helps when: rows differ much in length: a step of long rows takes most memory and most time, and one
    of short rows leaves the device idle. What a step takes at most is then a choice of its own.
Does not help when: rows are of like length, or the loop counts on the number of rows in a batch.
    It is made for losses over tokens: where the loss is a mean over rows, as a classifier's is, a
    row of a batch of few weighs as much as many short ones, and the training may learn less.
    Refused where length-bucketing is, and with drop_last=True, which asks for batches of one size.
Numbers: training: batches of another number of rows, which the effect names. With tokens=N an epoch
    has fewer steps than len(loader), by which schedules may be planned: they end early.
Measured: examples/slow/hf/pad_to_max, a classifier, CPU time of its 164 steps: 3.8 s (3.75 to
    3.9), with length-bucketing 3.6 s, as it is 23.0 s (medians, n 3, by turns; one core of an Intel
    Xeon that other processes used as well, torch 2.13). It learned less in an epoch: loss on the
    test set +0.065 (standard error 0.010) against random batches, n 12 seeds, and +0.038 (0.006)
    where each batch was weighed by its rows. What it does to losses over tokens is not measured.
Source: https://fairseq.readthedocs.io/en/latest/command_line_tools.html (--max-tokens, 2026-11)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotloop.process.internal_frames import hide
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique
from hotloop.techniques.length_bucketing import CHOICES, apply_batches, look_at, multiple_of

if TYPE_CHECKING:
    from hotloop.observe.probes.lengths import Looked
    from hotloop.session.session import ScriptSession

__all__ = ["TECHNIQUE"]

ID = "token-budget"


def apply(session: ScriptSession, *, tokens: int = 0, lengths: str = "auto") -> int:
    """Change a loader if its batches get narrower; return 1 if it changed, else 0."""
    from hotloop.techniques.on_scripts.bucketing import by_tokens

    batches = session.loader.batch_sampler
    if getattr(batches, "drop_last", False):
        session.refused = "with drop_last=True the loop may count on batches of one size"
        return 0
    if (looked := look_at(session, lengths)) is None:
        return 0
    divide = partial(by_tokens, multiple=multiple_of(looked), tokens=tokens)
    words = f"of about {tokens:,} tokens" if tokens else "of about as many tokens each"
    if looked.lengths is not None:
        session.refused, more = _said(looked, batches.batch_size, tokens)
        words += more
    elif tokens:
        words += ", perhaps fewer an epoch than len(loader)"
    return 0 if session.refused is not None else apply_batches(session, ID, looked, divide, words)


def _said(looked: Looked, rows: int, tokens: int) -> tuple[str | None, str]:
    """Return why a budget is too small (or None), and a description of its batches."""
    from hotloop.techniques.on_scripts.bucketing import by_tokens, shuffled, widths

    assert looked.lengths is not None
    lengths, multiple = shuffled(looked.lengths), multiple_of(looked)
    sizes, now = widths(lengths, multiple), -(-len(lengths) // rows)
    least = max(
        len(batch) * int(sizes[batch].max())
        for batch in by_tokens(lengths, rows, multiple=multiple)
    )
    if 0 < tokens < least:
        why = f"{tokens:,} tokens would make more batches than the {now} the loop counts on; "
        return why + f"{least:,} make as many", ""
    made = list(map(len, by_tokens(lengths, rows, multiple=multiple, tokens=tokens)))
    fewer = f"{len(made)} an epoch, and len(loader) is {now}: schedules by it end early; "
    return None, f" ({fewer * (len(made) < now)}{min(made)} to {max(made)} rows, not {rows})"


def read_back(session: ScriptSession) -> str | None:
    """Describe the change if it is in place."""
    return session.facts[ID] if ID in session.loader_changes else None


TECHNIQUE = Technique(
    id=ID,
    title="Token budget",
    stage=Stage.LOADER,
    numerics=Numerics.TRAINING,
    apply=apply,
    read_back=read_back,
    choices={"tokens": (0, 8192, 32768), "lengths": CHOICES},
    nothing="the batches are of like size already",
    excludes=frozenset({"length-bucketing", "vectorised-reads"}),
    hosts=frozenset({HostKind.SCRIPT}),
)


hide(globals())
