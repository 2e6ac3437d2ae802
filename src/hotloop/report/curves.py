"""The charts of one run, or of two runs overlaid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.report import points, titles
from hotloop.report.axis import Axis, linear, spanning
from hotloop.report.chart import Chart, Curve
from hotloop.report.thin import thin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.report.facts import Facts
    from hotloop.report.points import Point

__all__ = [
    "Shown",
    "figure",
    "gradient_norm",
    "learning_rate",
    "losses",
    "losses_by_time",
    "memory",
    "scores",
    "throughput",
    "utilisation",
]

WIDE, SMALL = 500, 300  # buckets of a wide and of a small chart
MOST_MARKS = 100  # most validations that are drawn with a point each
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIMES = ((2 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
BAND = "Several steps share a place: the line is their median, the band their lowest and highest."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run, with the colours and the label to draw it with."""

    run: Facts
    look: str  # a or b, the colours of page.css
    label: str = ""  # A or B; empty if only one run is shown

    def named(self, text: str) -> str:
        """Return `text` with the run's label before it."""
        return f"{self.label} {text}".strip()


def losses(runs: Sequence[Shown]) -> Chart:
    """Return training and validation losses by step."""
    lines: list[Curve] = []
    for shown in runs:
        other = shown.look if len(runs) > 1 else "b"
        train, valid = points.training(shown.run), points.validation(shown.run)
        lines.append(_line(shown.named("training"), f"{shown.look} train", train, WIDE))
        lines.append(_marked(shown.named("validation"), f"{other} valid", valid))
    title = _joined("Lowest validation loss", runs, titles.lowest)
    chart = _by_step(
        "losses", title, runs, lines, up=_loss(runs), y=spanning(_values(lines), ticks=6)
    )
    summary = "; ".join(shown.named(titles.course(shown.run)) for shown in runs)
    return replace(chart, look="tall", summary=summary)


def scores(shown: Shown) -> Chart:
    """Return the score that selects the best model, and the accuracy, by step."""
    run = shown.run
    names = dict.fromkeys(name for name in (run.judged_by, "accuracy") if name is not None)
    looks = ("b valid", f"{shown.look} valid")  # colours of the validation and the training loss
    lines = [
        _marked(name, look, points.figure(run, name))
        for name, look in zip(names, looks, strict=False)
    ]
    title = f"Best {run.judged_by}: {titles.highest(run)}"
    y = spanning(_values(lines), ticks=5)
    return replace(_by_step("scores", title, [shown], lines, up="score", y=y), look="wide")


def figure(shown: Shown, name: str, title: str, *, up: str) -> Chart:
    """Return a validation figure by step, with its last value in the title."""
    values = points.figure(shown.run, name)
    line, last = _marked("", f"{shown.look} only", values), values[-1][1]
    y = spanning(_values([line]), ticks=5)
    return _by_step(_id(name), f"{title}: {last:.4f}", [shown], [line], up=up, y=y)


def _id(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)


def losses_by_time(runs: Sequence[Shown]) -> Chart:
    """Return validation losses by wall time."""
    lines = [
        _marked(s.named("validation"), f"{s.look} valid", points.validation_by_time(s.run))
        for s in runs
    ]
    title = _joined("Wall time to the lowest validation loss", runs, titles.time_of_lowest)
    y = spanning(_values(lines), ticks=6)
    return replace(_by_time("time", title, lines, up=_loss(runs), y=y), look="wide")


def throughput(runs: Sequence[Shown]) -> Chart:
    """Return tokens per second by step."""
    lines = _lines(runs, points.speeds, WIDE)
    title, y = _joined("Throughput", runs, titles.speed), linear(_values(lines), ticks=5, zero=True)
    return replace(_by_step("throughput", title, runs, lines, up="tokens/s", y=y), look="wide")


def gradient_norm(runs: Sequence[Shown]) -> Chart:
    """Return the gradient norm before clipping by step."""
    lines = _lines(runs, points.norms, SMALL)
    title, y = _joined("Gradient norm", runs, titles.norm), spanning(_values(lines), ticks=5)
    return _by_step("norm", title, runs, lines, up="norm before clipping", y=y)


def learning_rate(runs: Sequence[Shown]) -> Chart:
    """Return the learning rate by step."""
    lines = _lines(runs, points.learning_rates, SMALL)
    title = _joined("Learning rate", runs, titles.learning_rate)
    y = linear(_values(lines), ticks=5, zero=True)
    return replace(_by_step("rate", title, runs, lines, up="learning rate", y=y), note=None)


def memory(runs: Sequence[Shown]) -> Chart:
    """Return memory by wall time."""
    top = max((s.run.peak_memory or 0.0 for s in runs), default=0.0)
    size, unit = next((scale for scale in SIZES if top >= 2 * scale[0]), SIZES[-1])
    lines = _lines(runs, lambda run: [(x, y / size) for x, y in points.memory(run)], SMALL)
    title, y = _joined("Memory", runs, titles.memory), linear(_values(lines), ticks=5, zero=True)
    return _by_time("memory", title, lines, up=unit, y=y)


def utilisation(runs: Sequence[Shown]) -> Chart:
    """Return the utilisation of the device, or of the process's cores, by wall time."""
    lines = _lines(runs, lambda run: [(x, 100 * y) for x, y in points.busy(run)], SMALL)
    cores = all(s.run.hardware is not None and s.run.hardware.device == "cpu" for s in runs)
    title = _joined("Cores in use" if cores else "Device in use", runs, titles.busy)
    y = linear([0.0, 100.0, *_values(lines)], ticks=5, tight=True)
    return _by_time("busy", title, lines, up="per cent", y=y)


def _by_step(
    id: str, title: str, runs: Sequence[Shown], lines: Sequence[Curve], *, up: str, y: Axis
) -> Chart:
    last = max((s.run.history.steps[-1].trace.step for s in runs if s.run.history.steps), default=1)
    x = linear([0.0, float(last)], ticks=6, tight=True, least=1.0)
    return _chart(id, title, across="optimizer step", up=up, x=x, y=y, lines=lines)


def _by_time(id: str, title: str, lines: Sequence[Curve], *, up: str, y: Axis) -> Chart:
    last = max((bucket.x for line in lines for bucket in line.buckets), default=1.0)
    size, unit = next((size, unit) for limit, size, unit in TIMES if last >= limit)
    scaled = [
        replace(line, buckets=[replace(b, x=b.x / size) for b in line.buckets]) for line in lines
    ]
    x = linear([0.0, last / size], ticks=6, tight=True)
    return _chart(id, title, across=f"wall time, {unit}", up=up, x=x, y=y, lines=scaled)


def _chart(
    id: str, title: str, *, across: str, up: str, x: Axis, y: Axis, lines: Sequence[Curve]
) -> Chart:
    thinned = any(bucket.low < bucket.high for line in lines for bucket in line.buckets)
    return Chart(
        id=id,
        title=title,
        summary=f"{title}.",
        across=across,
        up=up,
        x=x,
        y=y,
        lines=[line for line in lines if line.buckets],
        note=BAND if thinned else None,
    )


def _lines(
    runs: Sequence[Shown], of: Callable[[Facts], Sequence[Point]], places: int
) -> list[Curve]:
    return [_line(s.named(""), f"{s.look} only", of(s.run), places) for s in runs]


def _line(label: str, look: str, of: Sequence[Point], places: int) -> Curve:
    return Curve(label=label, look=look, buckets=thin(of, buckets=places))


def _marked(label: str, look: str, of: Sequence[Point]) -> Curve:
    return replace(_line(label, look, of, WIDE), marks=len(of) <= MOST_MARKS)


def _values(lines: Sequence[Curve]) -> list[float]:
    return [value for line in lines for b in line.buckets for value in (b.low, b.high)]


def _joined(name: str, runs: Sequence[Shown], words: Callable[[Facts], str]) -> str:
    return f"{name}: " + "; ".join(shown.named(words(shown.run)) for shown in runs)


def _loss(runs: Sequence[Shown]) -> str:
    units = {shown.run.loss_unit for shown in runs}
    unit = units.pop() if len(units) == 1 else None
    return f"loss, {unit or 'unit unknown'}"
