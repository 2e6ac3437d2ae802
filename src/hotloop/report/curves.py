"""The charts of one run, or of two runs overlaid."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.units import bytes_, count, duration
from hotloop.report.axis import linear, short_number
from hotloop.report.chart import chart_of, curve, values
from hotloop.report.figures import loss_in_words
from hotloop.report.markup import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.report.chart import Chart, Curve
    from hotloop.report.facts import Facts

    Point = tuple[float, float]

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
        train = [(float(s.trace.step), s.trace.loss) for s in shown.run.history.steps]
        valid = [(float(v.step), v.loss) for v in shown.run.history.validations]
        lines.append(curve(shown.named("training"), f"{shown.look} train", train, WIDE))
        lines.append(_marked(shown.named("validation"), f"{other} valid", valid))
    title = _joined("Lowest validation loss", runs, _lowest)
    summary = "; ".join(shown.named(_course(shown.run)) for shown in runs)
    return replace(
        _by_step("losses", title, runs, lines, up=_loss(runs), ticks=6, look="tall"),
        summary=summary,
    )


def _lowest(run: Facts) -> str:
    """Return the lowest validation loss and its step."""
    if run.best is None:
        return f"{UNKNOWN}, no validation was made"
    return f"{loss_in_words(run, run.best[0])} at step {run.best[1]:,}"


def _course(run: Facts) -> str:
    """Return the first and the last training loss and the lowest validation loss."""
    if not run.history.steps:
        return "no step was made."
    first, last = run.history.steps[0].trace, run.history.steps[-1].trace
    return (
        f"training loss {first.loss:.4g} at step {first.step:,} and {last.loss:.4g} at step "
        f"{last.step:,}; lowest validation loss {_lowest(run)}."
    )


def scores(shown: Shown) -> Chart:
    """Return the score that selects the best model, and the accuracy, by step."""
    run = shown.run
    names = dict.fromkeys(name for name in (run.judged_by, "accuracy") if name is not None)
    looks = ("b valid", f"{shown.look} valid")  # colours of the validation and the training loss
    pairs = zip(names, looks, strict=False)
    lines = [_marked(name, look, _figure(run, name)) for name, look in pairs]
    best = UNKNOWN
    if run.best_score is not None:
        best = f"{run.best_score[0]:.4f} at step {run.best_score[1]:,}"
    title = f"Best {run.judged_by}: {best}"
    return _by_step("scores", title, [shown], lines, up="score", look="wide")


def figure(shown: Shown, name: str, title: str, *, up: str) -> Chart:
    """Return a validation figure by step, with its last value in the title."""
    points = _figure(shown.run, name)
    line, last = _marked("", f"{shown.look} only", points), points[-1][1]
    id = "".join(character if character.isalnum() else "-" for character in name)
    return _by_step(id, f"{title}: {last:.4f}", [shown], [line], up=up)


def _figure(run: Facts, name: str) -> list[Point]:
    """Return a validation figure by step."""
    validations = run.history.validations
    return [(float(v.step), v.figures[name]) for v in validations if name in v.figures]


def losses_by_time(runs: Sequence[Shown]) -> Chart:
    """Return validation losses by wall time."""
    lines = []
    for s in runs:
        points = [(v.at, v.loss) for v in s.run.history.validations]
        lines.append(_marked(s.named("validation"), f"{s.look} valid", points))
    title = _joined("Wall time to the lowest validation loss", runs, _time_of_lowest)
    return _by_time("time", title, lines, up=_loss(runs), ticks=6, look="wide")


def _time_of_lowest(run: Facts) -> str:
    best = min(run.history.validations, key=lambda v: v.loss, default=None)
    return UNKNOWN if best is None else f"{duration(best.at)} for {best.loss:.4f}"


def throughput(runs: Sequence[Shown]) -> Chart:
    """Return tokens per second by step."""
    lines = _lines(runs, lambda run: [(float(r.step), r.tokens_per_s) for r in run.rates], WIDE)
    title = _joined("Throughput", runs, _speed)
    return _by_step("throughput", title, runs, lines, up="tokens/s", zero=True, look="wide")


def _speed(run: Facts) -> str:
    known = run.throughput
    return UNKNOWN if known is None else f"median {count(known.median)} tokens/s"


def gradient_norm(runs: Sequence[Shown]) -> Chart:
    """Return the gradient norm before clipping by step."""
    title = _joined("Gradient norm", runs, _norm)
    lines = _lines(runs, _norms, SMALL)
    return _by_step("norm", title, runs, lines, up="norm before clipping")


def _norms(run: Facts) -> list[Point]:
    """Return the gradient norm by step, without steps whose gradients overflowed."""
    traces = (step.trace for step in run.history.steps)
    return [(float(t.step), t.norm) for t in traces if t.norm is not None]


def _norm(run: Facts) -> str:
    """Return the median and the highest gradient norm."""
    if not (known := _norms(run)):
        return UNKNOWN
    step, highest = max(known, key=lambda point: point[1])
    median = statistics.median(n for _, n in known)
    return f"median {median:.3g}, highest {highest:.3g} at step {step:,.0f}"


def learning_rate(runs: Sequence[Shown]) -> Chart:
    """Return the learning rate by step."""
    title = _joined("Learning rate", runs, _rate)
    lines = _lines(runs, _rates, SMALL)
    chart = _by_step("rate", title, runs, lines, up="learning rate", zero=True)
    return replace(chart, note=None)


def _rates(run: Facts) -> list[Point]:
    return [(float(s.trace.step), s.trace.learning_rate) for s in run.history.steps]


def _rate(run: Facts) -> str:
    """Return the highest and the last learning rate."""
    rates = [float(f"{rate:.3g}") for _, rate in _rates(run)]
    if not rates:
        return UNKNOWN
    return f"highest {short_number(max(rates))}, last {short_number(rates[-1])}"


def memory(runs: Sequence[Shown]) -> Chart:
    """Return memory by wall time."""
    top = max((s.run.peak_memory or 0.0 for s in runs), default=0.0)
    size, unit = next((scale for scale in SIZES if top >= 2 * scale[0]), SIZES[-1])
    lines = _lines(runs, lambda run: [(x, y / size) for x, y in _memory(run)], SMALL)
    title = _joined("Memory", runs, _memory_range)
    return _by_time("memory", title, lines, up=unit, zero=True)


def _memory(run: Facts) -> list[Point]:
    """Return bytes in use by wall time."""
    return [(r.at, r.memory_bytes) for r in run.history.readings if r.memory_bytes is not None]


def _memory_range(run: Facts) -> str:
    known = [size for _, size in _memory(run)]
    return f"{bytes_(min(known))} to {bytes_(max(known))}" if known else UNKNOWN


def utilisation(runs: Sequence[Shown]) -> Chart:
    """Return the utilisation of the device, or of the process's cores, by wall time."""
    lines = _lines(runs, lambda run: [(x, 100 * y) for x, y in _busy(run)], SMALL)
    cores = all(s.run.hardware is not None and s.run.hardware.device == "cpu" for s in runs)
    title = _joined("Cores in use" if cores else "Device in use", runs, _busy_median)
    y = linear([0.0, 100.0, *values(lines)], ticks=5, tight=True)
    return _by_time("busy", title, lines, up="per cent", y=y)


def _busy(run: Facts) -> list[Point]:
    """Return the utilisation, 0..1, by wall time."""
    return [(r.at, r.utilisation) for r in run.history.readings if r.utilisation is not None]


def _busy_median(run: Facts) -> str:
    known = [share for _, share in _busy(run)]
    return f"median {statistics.median(known):.0%}" if known else UNKNOWN


def _by_step(
    id: str, title: str, runs: Sequence[Shown], lines: Sequence[Curve], **more: Any
) -> Chart:
    last = max((s.run.history.steps[-1].trace.step for s in runs if s.run.history.steps), default=1)
    x = linear([0.0, float(last)], ticks=6, tight=True, least=1.0)
    return _chart(id, title, lines, x=x, across="optimizer step", **more)


def _by_time(id: str, title: str, lines: Sequence[Curve], **more: Any) -> Chart:
    last = max((bucket.x for line in lines for bucket in line.buckets), default=1.0)
    size, unit = next((size, unit) for limit, size, unit in TIMES if last >= limit)
    scaled = [
        replace(line, buckets=[replace(b, x=b.x / size) for b in line.buckets]) for line in lines
    ]
    x = linear([0.0, last / size], ticks=6, tight=True)
    return _chart(id, title, scaled, x=x, across=f"wall time, {unit}", **more)


def _chart(id: str, title: str, lines: Sequence[Curve], **more: Any) -> Chart:
    return chart_of(lines, id=id, title=title, summary=f"{title}.", note=BAND, **more)


def _lines(
    runs: Sequence[Shown], of: Callable[[Facts], Sequence[Point]], places: int
) -> list[Curve]:
    return [curve(s.named(""), f"{s.look} only", of(s.run), places) for s in runs]


def _marked(label: str, look: str, of: Sequence[Point]) -> Curve:
    return replace(curve(label, look, of, WIDE), marks=len(of) <= MOST_MARKS)


def _joined(name: str, runs: Sequence[Shown], words: Callable[[Facts], str]) -> str:
    return f"{name}: " + "; ".join(shown.named(words(shown.run)) for shown in runs)


def _loss(runs: Sequence[Shown]) -> str:
    units = {shown.run.loss_unit for shown in runs}
    unit = units.pop() if len(units) == 1 else None
    return f"loss, {unit or 'unit unknown'}"
