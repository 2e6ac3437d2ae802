"""The course of an observed run: evaluations, saves, step times, losses and waits."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from hotloop.core.units import duration, many, moment
from hotloop.report.axis import linear, short_number
from hotloop.report.chart import Curve, Event, chart_of, curve, draw
from hotloop.report.markup import Html, join, missing, picture, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import EvaluationSpan, Loader, Save

__all__ = ["epochs", "losses", "step_times", "strip", "waits"]

WIDE = 500  # buckets across a chart
MOST_EVENTS = 60  # most event lines in a chart; more would hide the curve
MOST_SPANS = 400  # most spans of a lane
NARROWEST = 0.003  # share of a lane below which a span would be invisible
BAND = "The line is a median, the band the lowest and highest."
LANE = 30  # pixels from one lane to the next


def strip(case: Case) -> Html:
    """Return lanes in seconds: the phases of the run, its evaluations and its saves."""
    total = case.seconds
    if not total:
        return missing("Nothing was observed.")
    first = sum(map(case.row, ("start", "import", "data load")))
    last = max(first, total - case.row("after training"))
    lanes = {
        "run": [(0.0, first, "start", "before the first step"),
                (first, last - first, "step", "training"),
                (last, total - last, "rest", "after training")],
        "evaluate": [_span(e, "evaluate") for e in _longest(case.evaluations)],
        "save": [_span(s, "save") for s in _longest(case.saves)],
    }  # fmt: skip
    nonempty = {name: spans for name, spans in lanes.items() if spans}
    axis = linear([0.0, total], ticks=6, tight=True)
    lane_marks = [_lane(n, name, spans, total) for n, (name, spans) in enumerate(nonempty.items())]
    ticks = (
        tag("text", label, class_="tick x", x=f"{axis.at(tick):.2%}", y=LANE * len(nonempty) + 14)
        for tick, label in zip(axis.ticks, axis.labels, strict=True)
    )
    words = _in_words(case, first, total - last)
    look = {"class_": "strip", "height": LANE * len(nonempty) + 20}
    svg = picture("strip", "The run in seconds", words, *lane_marks, *ticks, **look)
    caption = tag("figcaption", tag("h3", "The run, in seconds since its start"))
    return tag("figure", caption, svg, tag("p", words, class_="note"), class_="chart")


def _lane(n: int, name: str, spans: Sequence[tuple[float, float, str, str]], total: float) -> Html:
    bars = []
    for begin, seconds, look, words in spans:
        if seconds <= 0 and look != "save":
            continue
        width = min(1.0, max(seconds / total, NARROWEST))
        left = min(max(0.0, begin / total), 1.0 - width)
        title = tag("title", f"{words}: {duration(seconds)} at {duration(begin)}")
        bars.append(
            tag("rect", title, class_=f"span {look}", x=f"{left:.3%}", width=f"{width:.3%}",
                y=LANE * n + 4, height=LANE - 10)
        )  # fmt: skip
    label = tag("text", name, class_="y", x="0", dx="-8", y=LANE * n + 18)
    return join([label, *bars])


def _longest(spans: Sequence[EvaluationSpan | Save]) -> Sequence[EvaluationSpan | Save]:
    return sorted(spans, key=lambda span: -span.seconds)[:MOST_SPANS]


def _span(span: EvaluationSpan | Save, look: str) -> tuple[float, float, str, str]:
    return span.at, span.seconds, look, f"{look} after step {span.step:,}"


def _in_words(case: Case, before: float, after: float) -> str:
    phrases = [f"The run: {duration(before)} before the first step, then training"]
    phrases[0] += f", {duration(after)} after the last step" if after >= 0.005 else ""
    for name, spans in (("evaluation", case.evaluations), ("save", case.saves)):
        seconds = [span.seconds for span in spans]
        if not seconds:
            phrases.append(f"no {name}")
            continue
        middle = f", each {moment(statistics.median(seconds))} (median)" if len(seconds) > 1 else ""
        phrases.append(f"{many(len(seconds), name)}, {moment(sum(seconds))} in all{middle}")
    if case.epochs:
        phrases.append(f"{case.epochs:,} epoch{'s' * (case.epochs > 1)} begun")
    return "; ".join(phrases) + "."


def epochs(case: Case) -> list[float]:
    """Return the steps at which an epoch ended; [] unless there is one loader of known length."""
    loaders, micro_batches = case.training_loaders, case.steps.backwards
    if len(loaders) != 1 or not loaders[0].batches or not micro_batches:
        return []
    steps = -(-loaders[0].batches // max(1, round(micro_batches)))
    return [float(step) for step in range(steps, case.steps.count, steps)][: case.epochs]


def step_times(case: Case) -> Html:
    """Return a chart of step times and of their largest row, with the events in between."""
    steps = case.steps
    if not steps.wall:
        return missing("No step was timed.")
    numbers = steps.numbers or tuple(range(1, len(steps.wall) + 1))
    size, unit = (1.0, "s") if statistics.median(steps.wall) >= 1 else (1e-3, "ms")
    lines = [_line("whole step", "a train", numbers, [wall / size for wall in steps.wall])]
    row = max(steps.rows, key=lambda name: sum(steps.rows[name]), default=None)
    if row is not None and len(steps.rows[row]) == len(steps.wall):
        part = [seconds / size for seconds in steps.rows[row]]
        lines.append(_line(f"of it {row}", "b train", numbers, part))
    longest = max(range(len(steps.wall)), key=steps.wall.__getitem__)
    title = (
        f"Step time: median {moment(statistics.median(steps.wall))}, longest "
        f"{moment(steps.wall[longest])} at step {numbers[longest]:,}"
    )
    events = list(_events(case))
    words = ", ".join(f"{event.label} at {len(event.at):,} places" for event in events)
    return _draw(
        "steps", title, lines, across="optimizer step", up=unit, events=events, zero=True,
        summary=f"{title}. {words or 'No evaluation, save or end of an epoch'}.", look="wide",
    )  # fmt: skip


def _events(case: Case) -> Iterator[Event]:
    """Yield the steps of evaluations, saves and ends of epochs."""
    kinds = {
        "evaluate": ("evaluation", sorted({float(e.step) for e in case.evaluations})),
        "save": ("save", sorted({float(save.step) for save in case.saves})),
        "epoch": ("end of an epoch", epochs(case)),
    }
    for look, (label, steps) in kinds.items():
        inside = [step for step in steps if 0 <= step <= case.steps.count]
        every = -(-len(inside) // MOST_EVENTS) or 1
        if inside:
            label += f" (1 of {every} shown)" if every > 1 else ""
            yield Event(label=label, look=look, at=inside[::every])


def losses(case: Case) -> Html:
    """Return a chart of the loss by step, as read at the backward pass."""
    known = case.steps.losses
    if not known:
        return missing("No loss was seen.")
    line = _line("", "a only", [step for step, _ in known], [loss for _, loss in known])
    (first, begun), (last, ended) = known[0], known[-1]
    title = f"Loss: {_loss(begun)} at step {first:,}, {_loss(ended)} at step {last:,}"
    if case.steps.nonfinite is not None:
        title += f"; NaN or infinite from step {case.steps.nonfinite:,} on"
    if not line.buckets:
        return missing(f"{title}: no value could be drawn.")
    return _draw("loss", title, [line], across="optimizer step", up="loss", summary=f"{title}.")


def _loss(value: float) -> str:
    return short_number(value) if math.isfinite(value) else str(value)


def waits(loader: Loader) -> Html:
    """Return a chart of the loop's wait for each batch of a loader."""
    times = [seconds * 1e3 for seconds in loader.waits]
    line = _line("", "a only", range(1, len(times) + 1), times)
    middle, longest = statistics.median(loader.waits), max(loader.waits)
    title = f"Wait for a batch: median {moment(middle)}, longest {moment(longest)}"
    if loader.first_waits:
        title += f"; the first of an epoch {moment(statistics.median(loader.first_waits))}"
    return _draw(
        f"waits-{loader.key}", title, [line], across="batch", up="ms", zero=True,
        summary=f"{title}.",
    )  # fmt: skip


def _line(label: str, look: str, xs: Sequence[int], ys: Sequence[float]) -> Curve:
    return curve(label, look, zip(map(float, xs), ys, strict=True), WIDE)


def _draw(id: str, title: str, lines: Sequence[Curve], **more: Any) -> Html:
    last = max((bucket.x for line in lines for bucket in line.buckets), default=1.0)
    x = linear([0.0, last], ticks=6, tight=True, least=1.0)
    return draw(chart_of(lines, id=id, title=title, x=x, note=BAND, **more))
