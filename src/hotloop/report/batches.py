"""The section on sampled batches: padding, lengths, labels and one sample."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.report.excerpt import visible, where
from hotloop.report.histogram import histogram
from hotloop.report.markup import Html, code, missing, panel, tag
from hotloop.report.sections import facts
from hotloop.report.sentences import folder_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["batches"]

MOST_LABELS = 12


def batches(case: Case) -> Html:
    """Return a panel for each kind of batch."""
    if not case.batches:
        return missing("No batch was looked at.")
    here = folder_of(case)
    return tag("div", *(_batch(n, batch, here) for n, batch in enumerate(case.batches, 1)))


def _batch(n: int, batch: BatchFacts, here: str) -> Html:
    whose = "Training" if batch.role == "train" else "Evaluation"
    loader = "" if batch.loader is None else f", loader {batch.loader}"
    head = tag("h3", f"{whose} batches{loader}", class_="lead")
    panels = [panel(head, facts(_facts(batch, here)))]
    if batch.lengths:
        panels.append(_lengths(n, batch))
    sample: object = ""
    if batch.decoded is not None:
        title = tag("h3", "One sample, as the model is given it", class_="lead")
        text = "\n".join(map(visible, batch.decoded.splitlines()))
        sample = tag("div", title, tag("pre", text), class_="panel below")
    return tag("div", tag("div", *panels, class_="two"), sample, class_="below")


def _facts(batch: BatchFacts, here: str) -> dict[str, object]:
    """Return the known facts of the batches, without the ones that were not measured."""
    shares = {
        "padding": (batch.padding, "of the positions"),
        "truncated": (batch.truncated, "of the rows fill the whole width"),
        "without a loss": (batch.ignored, "of the label positions"),
        "duplicated": (batch.duplicated, "of the rows equal an earlier one of the epoch"),
        "in training too": (batch.in_evaluation, "of the rows"),
    }
    rows: dict[str, object] = {
        "looked at": f"{batch.sampled:,} batch{'es' * (batch.sampled != 1)}",
        **{name: code(_shape(shape)) for name, shape in batch.shapes.items()},
        **{name: f"{share:.1%} {of}" for name, (share, of) in shares.items() if share is not None},
    }
    if batch.pad_id is not None:
        rows["padding id"] = batch.pad_id
    if batch.shifted is not None:
        rows["windows"] = f"{batch.shifted:,} positions apart"
    if batch.overlap is not None:
        rows["read per epoch"] = f"each position {batch.overlap:.3g} times"
    if batch.labels:
        rows[f"label ({batch.label})" if batch.label else "label"] = _labels(batch)
    if batch.place is not None:
        rows["place"] = code(where(batch.place, here))
    return rows


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape) or "one number"


def _labels(batch: BatchFacts) -> str:
    counts = sorted(batch.labels.items(), key=lambda pair: -pair[1])
    total = sum(batch.labels.values())
    shown = ", ".join(f"{value} {count / total:.0%}" for value, count in counts[:MOST_LABELS])
    more = len(counts) - MOST_LABELS
    return f"{len(counts):,} value{'s' * (len(counts) != 1)}: {shown}" + (
        f" and {more:,} more" if more > 0 else ""
    )


def _lengths(n: int, batch: BatchFacts) -> Html:
    """Return a histogram of row lengths without padding, and mark the padded width."""
    lengths, middle = batch.lengths, statistics.median(batch.lengths)
    width = statistics.median(batch.widths) if batch.widths else None
    title = f"Real tokens of a row: median {middle:,.0f}"
    if width is not None:
        title += f" in batches {width:,.0f} wide" + " (median)" * (len({*batch.widths}) > 1)
    summary = f"{len(lengths):,} rows, {min(lengths):,} to {max(lengths):,} tokens."
    if batch.padding is not None:
        summary += f" {batch.padding:.0%} of all positions are padding."
    return histogram(
        batch.lengths,
        id=f"lengths-{n}",
        title=title,
        summary=f"{title}. {summary}",
        across="tokens, padding left out",
        up="rows",
        mark=None if width is None else (width, f"width {width:,.0f}"),
    )
