"""Writes the page of a ladder: the factor of each rung, all figures, claims and unknowns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.bench.metrics import METRICS
from hotloop.core.measurement import RISK
from hotloop.core.units import duration
from hotloop.report.document import document
from hotloop.report.markup import UNKNOWN, Html, join, missing, table, tag
from hotloop.report.sections import facts, section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.bench.result import Result, RungResult
    from hotloop.bench.targets import RequirementVerdict

__all__ = ["page"]

_HEAD = "The loop before and each rung ran by turns, a block of the same steps each."


def page(result: Result, verdicts: Sequence[RequirementVerdict] = ()) -> str:
    """Return the result of a ladder as HTML."""
    measured = [row for row in result.rows if row.is_measured]
    main = tag(
        "main",
        section("Targets", _targets(verdicts)) if verdicts else Html(""),
        section("Rungs", _panel(_rungs(measured))),
        section("All figures", _panel(_figures(measured))),
        section("Claimed and measured", _panel(_claims(result.rows))),
        section("An epoch, forecast and made", _panel(_epochs(result.rows))),
        section("Not measured", _panel(_others(result.rows))),
        section("Machine and data", _panel(_about(result))),
    )
    head = tag(
        "header",
        tag("h1", f"bench {result.ladder}", " ", tag("small", result.date)),
        tag("p", _HEAD, class_="soft"),
        tag("p", result.stopped, class_="callout plain") if result.stopped else Html(""),
    )
    return document(f"bench {result.ladder}", head, main)


def _panel(*content: object) -> Html:
    return tag("div", *content, class_="panel")


def _rungs(rows: Sequence[RungResult]) -> Html:
    lines = [
        (
            row.name,
            "-" if row.comparison is None else row.comparison.factor,
            "-" if row.over_below is None else f"{row.over_below:.2f}x",
            *(_shown(row, name) for name in ("tokens_per_s", "of_ceiling", "epoch_s")),
            "-" if row.parity is None else row.parity.why,
        )
        for row in rows
    ]
    factors = ("rung", "times before", "times the one below")
    titles = (*factors, "tokens/s", "of the ceiling", "epoch", "losses")
    caption = f"Times before: of step times within rounds, with an interval missed at {RISK:.0%}."
    return _table(titles, lines, "Nothing was measured.", caption=caption)


def _table(
    titles: Sequence[str],
    lines: Sequence[Sequence[object]],
    nothing: str,
    *,
    caption: str = "",
    kind: str = "list",
) -> Html:
    """Return a table, or `nothing` if it has no lines."""
    return table(titles, lines, caption=caption, kind=kind) if lines else missing(nothing)


def _figures(rows: Sequence[RungResult]) -> Html:
    if not rows:
        return missing("Nothing was measured.")
    known = [name for name in METRICS if any(name in row.figures for row in rows)]
    lines = [(row.name, *(_shown(row, name) for name in known)) for row in rows]
    whys = {name: why for row in rows for name, why in row.unknown.items() if name not in known}
    rest = "; ".join(f"{name}: {why}" for name, why in whys.items())
    caption = "; ".join(f"{name}: {METRICS[name].what}" for name in known)
    return join(
        [
            table(("rung", *known), lines, caption=f"{caption}.", kind="numbers"),
            tag("p", f"Unknown for all: {rest}." if rest else "", class_="soft"),
        ]
    )


def _shown(row: RungResult, name: str) -> Html | str:
    value = row.figures.get(name)
    if value is not None:
        return METRICS[name].shown(value)
    return tag("span", UNKNOWN, title=row.unknown.get(name))


def _claims(rows: Sequence[RungResult]) -> Html:
    lines = [
        (row.name, claim.text, row.against(claim), claim.source)
        for row in rows
        for claim in row.claims
    ]
    titles = ("rung", "claimed", "measured here", "who says so")
    return _table(titles, lines, "Nobody claims anything.", caption="Claims decide nothing.")


def _epochs(rows: Sequence[RungResult]) -> Html:
    lines: list[tuple[object, ...]] = []
    for row in rows:
        if (epoch := row.epoch) is not None:
            real = epoch.why if epoch.measured is None else duration(epoch.measured)
            off = "-" if epoch.off is None else f"{epoch.off:+.0%}"
            lines.append((row.name, epoch.steps, duration(epoch.estimated), real, off))
    titles = ("rung", "steps", "forecast", "real", "off")
    caption, nothing = "A part of the data, hotloop train.", "No epoch was made for real."
    return _table(titles, lines, nothing, caption=caption, kind="numbers")


def _others(rows: Sequence[RungResult]) -> Html:
    lines = [(row.name, row.state, row.why) for row in rows if not row.is_measured]
    return _table(("rung", "state", "why"), lines, "All rungs were measured.")


def _about(result: Result) -> Html:
    hardware = result.hardware
    busy = result.busy_cores
    return facts(
        {
            "device": f"{hardware.name} ({hardware.device})",
            "cores": hardware.cores,
            "busy with others": None if busy is None else f"{busy:.1f} cores",
            **{f"products, {k}": f"{m.median / 1e9:,.0f} GFLOP/s (n={m.n})"
               for k, m in hardware.measured.items()},
            **hardware.versions,
            **result.facts,
        }
    )  # fmt: skip


def _targets(verdicts: Sequence[RequirementVerdict]) -> Html:
    lines = [(v.target.text, "met" if v.met else "missed", v.why) for v in verdicts]
    return _panel(join([table(("target", "", "why"), lines, caption="", kind="list")]))
