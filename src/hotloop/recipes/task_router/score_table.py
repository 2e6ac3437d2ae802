"""Formats the routes and answers of a task router as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["columns", "counted", "figure_text", "router_table", "table"]

_NONE = "-"


def router_table(scores: Mapping[str, Any]) -> str:
    """Return the scores of `hotloop predict` as lines of text without colour."""
    names = scores["tasks"]
    blocks = [f"{sum(scores['rows']):,} rows ({counted(scores)})"]
    if (routing := scores.get("routing")) is not None:
        blocks[0] += "\nrouting " + "  ".join(
            f"{name} {routing[name]:.4f}"
            for name in ("accuracy", "confidence", "entropy", "balance")
        )
        blocks.append(_confusion(names, routing["confusion"]))
    blocks.append(_ways(columns(scores), scores["ways"]))
    return "\n\n".join([*blocks, *scores["notes"]])


def _confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    lines = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
    return table(["is \\ taken for", *names], lines)


def counted(scores: Mapping[str, Any]) -> str:
    """Return the number of rows of each task in words."""
    return ", ".join(
        f"{n} {rows:,}" for n, rows in zip(scores["tasks"], scores["rows"], strict=True)
    )


def columns(scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs (task, figure) of the first way, in the order of the tasks."""
    first = next(iter(scores["ways"].values()))["figures"]
    return [(task, figure) for task in scores["tasks"] for figure in first.get(task, {})]


def figure_text(way: Mapping[str, Any], task: str, figure: str) -> str:
    """Return a figure as text: two decimals above 1 (BLEU, chrF), else four; "-" where unknown."""
    value = way["figures"].get(task, {}).get(figure)
    return _NONE if value is None else f"{value:.2f}" if value > 1 else f"{value:.4f}"


def _ways(figures: Sequence[tuple[str, str]], ways: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        [
            name,
            f"{way['score']:.4f}",
            *(figure_text(way, task, figure) for task, figure in figures),
        ]
        for name, way in ways.items()
    ]
    return table(["adapters", "score", *(f"{task} {figure}" for task, figure in figures)], lines)


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return columns: names to the left, figures to the right."""
    rows = [list(titles), *map(list, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
