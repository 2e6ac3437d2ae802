"""Prints the result of hotloop bench on a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from hotloop.bench.metrics import METRICS
from hotloop.bench.result import OWN
from hotloop.core.units import count, duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from hotloop.bench.compare import Ratio
    from hotloop.bench.result import Result, RungResult
    from hotloop.bench.targets import RequirementVerdict
    from hotloop.core.fail_on import ConditionVerdict

__all__ = ["show", "show_conditions", "show_ratios", "show_verdicts"]

_RATES = {"tokens_per_s": "tokens/s", "targets_per_s": "loss tok/s", "samples_per_s": "samples/s"}
_USE = {
    "it_per_s": "it/s",
    "gpu_util": "GPU",
    "cpu_util": "CPU",
    "of_ceiling": "of ceiling",
    "mfu": "MFU",
    "vram": "GPU mem",
    "ram": "RAM",
    "temperature_c": "heat",
}
_OUTCOME = {"REGRESSED": "bold red", "held": "bold green", "UNKNOWN": "bold yellow"}
_ONCE = {"start_s": "start", "compile_s": "compile", "epoch_s": "whole epoch"}


def show(result: Result, out: Console) -> None:
    """Print the measured rungs, the reasons for the others, claims and epochs."""
    hardware, rows = result.hardware, [row for row in result.rows if row.is_measured]
    out.print(f"bench {result.ladder} on {escape(hardware.name)} ({hardware.device})")
    if result.busy_cores is not None and result.busy_cores > 0.2:
        out.print(f"other processes keep {result.busy_cores:.1f} cores busy: figures may be low")
    _table(rows, _RATES, out, factor=True)
    _table(rows, _USE, out)
    _table(rows, _ONCE, out)
    if rows:
        out.print(f"{rows[0].name} ran beside a second process of itself: that is the noise")
    _own(result, out)
    for row in result.rows:
        if not row.is_measured:
            why = row.state if row.why is None else f"{row.state}: {row.why}"
            out.print(f"{escape(row.name)}: {escape(why)}")
    for row in rows:
        if row.parity is not None and row.parity.kept is not True:
            out.print(f"{row.name}: losses: {escape(row.parity.why)}")
    for row in result.rows:
        for claim in row.claims:
            sentence = f"claimed {claim.text}; here {row.against(claim)} ({claim.source})"
            out.print(escape(f"{row.name}: {sentence}"))
    _epochs(result.rows, out)
    for dtype, rate in hardware.measured.items():
        out.print(f"{dtype} products reach {count(rate.median)}FLOP/s here (n={rate.n})")
    if result.stopped is not None:
        out.print(result.stopped)


def _own(result: Result, out: Console) -> None:
    """Print which rung is faster than hotloop's own choice, if any."""
    better, own = result.better, result.row(OWN)
    if better is None or own is None:
        return
    times = [row.comparison.ratio for row in (own, better) if row.comparison is not None]
    own_time, best_time = (time or 1.0 for time in times)
    out.print(
        f"{escape(own.name)} is not the best here: {escape(better.name)} is "
        f"{own_time / best_time:.2f}x as fast; hotloop tune {escape(result.ladder)} looks for the "
        "best plan by measuring"
    )


def _table(
    rows: Sequence[RungResult], columns: Mapping[str, str], out: Console, *, factor: bool = False
) -> None:
    """Print some figures of all rungs, without figures that no rung has."""
    known = {name for row in rows for name in row.figures}
    shown = {name: title for name, title in columns.items() if name in known}
    if not shown:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("rung", overflow="fold")
    if factor:
        table.add_column("times before", justify="right", no_wrap=True)
        table.add_column("below", justify="right", no_wrap=True)
    for title in shown.values():
        table.add_column(title, justify="right")
    for row in rows:
        over = "-" if row.over_below is None else f"{row.over_below:.2f}x"
        factors = [row.comparison.factor if row.comparison else "-", over] if factor else []
        table.add_row(escape(row.name), *factors, *(_cell(row, name) for name in shown))
    out.print(table)
    out.print()


def _cell(row: RungResult, name: str) -> str:
    value = row.figures.get(name)
    return "unknown" if value is None else METRICS[name].shown(value)


def _epochs(rows: Sequence[RungResult], out: Console) -> None:
    for row in rows:
        epoch = row.epoch
        if epoch is None:
            continue
        if epoch.measured is None:
            out.print(f"{row.name}: an epoch for real: {escape(str(epoch.why))}")
            continue
        out.print(
            f"{row.name}: an epoch of {epoch.steps} steps took {duration(epoch.measured)}, "
            f"forecast {duration(epoch.estimated)} ({epoch.off:+.0%})"
        )


def show_verdicts(verdicts: Sequence[RequirementVerdict], name: str, out: Console) -> None:
    """Print which targets were met, and by how much the others were missed."""
    for verdict in verdicts:
        word = "met" if verdict.met else "MISSED"
        out.print(f"{word} {escape(verdict.target.text)} ({name}): {escape(verdict.why)}")


def show_conditions(verdicts: Sequence[ConditionVerdict], out: Console) -> None:
    """Print the verdict on each condition of --fail-on."""
    for verdict in verdicts:
        colour = _OUTCOME[verdict.outcome]
        text = escape(f"{verdict.condition}: {verdict.why}")
        out.print(f"[{colour}]{verdict.outcome}[/{colour}] {text}")


def show_ratios(ratios: Sequence[Ratio], out: Console) -> None:
    """Print two results side by side, with the interval of B/A and its verdict."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("rung", "A tokens/s", "B tokens/s", "B/A", "A", "B", "B/A", "95 %", "B is"):
        table.add_column(title, justify="left" if title == "rung" else "right")
    for ratio in ratios:
        if ratio.why is not None:
            table.add_row(escape(ratio.name), *["-"] * 8)
            continue
        table.add_row(
            escape(ratio.name),
            *(count(rate) for rate in (ratio.a, ratio.b) if rate is not None),
            *(_times(x) for x in (ratio.ratio, ratio.factor_a, ratio.factor_b, ratio.of_factors)),
            _interval(ratio),
            ratio.verdict,
        )
    out.print(table)
    for ratio in ratios:
        if ratio.why is not None:
            out.print(f"{ratio.name}: {ratio.why}")
    out.print("A, B and B/A on the right are times before, within each result: they hold where")
    out.print("the machine was slower on one day; the two results were not measured by turns.")
    out.print("95 %: the interval of B/A in tokens/s, with what equal runs at separate times and")
    out.print("other load differ by; B is FASTER or SLOWER only beyond that")


def _interval(ratio: Ratio) -> str:
    if ratio.change.interval is None:
        return "-"
    low, high = ratio.change.interval
    return f"{1 / high:.2f}-{1 / low:.2f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"
