"""What the model was given: padding, lengths, labels and one sample, from sampled batches."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.report.excerpt import visible, where
from hotloop.report.histogram import Histogram, draw
from hotloop.report.markup import Html, code, missing, tag
from hotloop.report.sections import facts
from hotloop.report.sentences import folder_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["batches"]

MOST_LABELS = 12


def batches(case: Case) -> Html:
    """Return what was seen of every kind of batch."""
    if not case.batches:
        return missing("No batch was looked at.")
    here = folder_of(case)
    return tag("div", *(_one(n, each, here) for n, each in enumerate(case.batches, 1)))


def _one(n: int, seen: BatchFacts, here: str) -> Html:
    whose = "Training" if seen.role == "train" else "Evaluation"
    loader = "" if seen.loader is None else f", loader {seen.loader}"
    head = tag("h3", f"{whose} batches{loader}", class_="lead")
    parts = [tag("div", head, facts(_facts(seen, here)), class_="panel")]
    if seen.lengths:
        parts.append(_lengths(n, seen))
    sample: object = ""
    if seen.decoded is not None:
        title = tag("h3", "One sample, as the model is given it", class_="lead")
        text = "\n".join(map(visible, seen.decoded.splitlines()))
        sample = tag("div", title, tag("pre", text), class_="panel below")
    return tag("div", tag("div", *parts, class_="two"), sample, class_="below")


def _facts(seen: BatchFacts, here: str) -> dict[str, object]:
    """Return what is known of them; what was not looked at is left out."""
    shares = {
        "padding": (seen.padding, "of the positions"),
        "truncated": (seen.truncated, "of the rows fill the whole width"),
        "without a loss": (seen.ignored, "of the label positions"),
        "duplicated": (seen.duplicated, "of the rows equal an earlier one of the epoch"),
        "in training too": (seen.in_evaluation, "of the rows"),
    }
    rows: dict[str, object] = {
        "looked at": f"{seen.sampled:,} batch{'es' * (seen.sampled != 1)}",
        **{name: code(_shape(shape)) for name, shape in seen.shapes.items()},
        **{name: f"{share:.1%} {of}" for name, (share, of) in shares.items() if share is not None},
    }
    if seen.pad_id is not None:
        rows["padding id"] = seen.pad_id
    if seen.shifted is not None:
        rows["windows"] = f"{seen.shifted:,} positions apart"
    if seen.overlap is not None:
        rows["read per epoch"] = f"each position {seen.overlap:.3g} times"
    if seen.labels:
        rows[f"label ({seen.label})" if seen.label else "label"] = _labels(seen)
    if seen.place is not None:
        rows["place"] = code(where(seen.place, here))
    return rows


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape) or "one number"


def _labels(seen: BatchFacts) -> str:
    often = sorted(seen.labels.items(), key=lambda pair: -pair[1])
    whole = sum(seen.labels.values())
    shown = ", ".join(f"{value} {many / whole:.0%}" for value, many in often[:MOST_LABELS])
    more = len(often) - MOST_LABELS
    return f"{len(often):,} value{'s' * (len(often) != 1)}: {shown}" + (
        f" and {more:,} more" if more > 0 else ""
    )


def _lengths(n: int, seen: BatchFacts) -> Html:
    """Return the histogram of real lengths beside the width they are padded to."""
    middle = statistics.median(seen.lengths)
    width = statistics.median(seen.widths) if seen.widths else None
    title = f"Real tokens of a row: median {middle:,.0f}"
    if width is not None:
        title += f" in batches {width:,.0f} wide" + " (median)" * (len({*seen.widths}) > 1)
    summary = f"{len(seen.lengths):,} rows, {min(seen.lengths):,} to {max(seen.lengths):,} tokens."
    if seen.padding is not None:
        summary += f" {seen.padding:.0%} of all positions are padding."
    return draw(
        Histogram(
            id=f"lengths-{n}",
            title=title,
            summary=f"{title}. {summary}",
            across="tokens, padding left out",
            up="rows",
            values=seen.lengths,
            mark=None if width is None else (width, f"width {width:,.0f}"),
        )
    )
