"""How a task router's rows were routed and answered, as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["router_table", "table"]

_NONE = "-"


def router_table(scores: Mapping[str, Any]) -> str:
    """Return the scores of `hotloop predict` as lines of text without colour."""
    names, rows = scores["tasks"], scores["rows"]
    counted = ", ".join(f"{name} {n:,}" for name, n in zip(names, rows, strict=True))
    parts = [f"{sum(rows):,} rows ({counted})"]
    if (routing := scores.get("routing")) is not None:
        parts[0] += "\nrouting " + "  ".join(
            f"{name} {routing[name]:.4f}"
            for name in ("accuracy", "confidence", "entropy", "balance")
        )
        parts.append(_confusion(names, routing["confusion"]))
    parts.append(_ways(names, scores["ways"]))
    return "\n\n".join([*parts, *scores["notes"]])


def _confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    lines = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
    return table(["is \\ taken for", *names], lines)


def _ways(names: Sequence[str], ways: Mapping[str, Mapping[str, Any]]) -> str:
    figures = [
        (task, figure)
        for task in names
        for figure in next(iter(ways.values()))["figures"].get(task, {})
    ]
    lines = [
        [
            way,
            f"{each['score']:.4f}",
            *(_figure(each["figures"].get(task, {}).get(figure)) for task, figure in figures),
        ]
        for way, each in ways.items()
    ]
    return table(["adapters", "score", *(f"{task} {figure}" for task, figure in figures)], lines)


def _figure(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}" if value > 1 else f"{value:.4f}"


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return columns: names to the left, figures to the right."""
    rows = [list(titles), *map(list, lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
