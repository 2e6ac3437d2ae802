"""The scores of a classifier as plain text: classes, confusion matrix, groups (weakest first)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.recipes.building.metrics import MetricsReport, Scores

__all__ = ["class_table"]

CLASSES: Final = 12  # of a confusion matrix that is shown
GROUPS: Final = 20  # that are shown
NAME: Final = 24  # columns of a name

_NONE: Final = "-"


def class_table(report: MetricsReport) -> str:
    """Return a report as lines of text without colour; "-" is said to mean: no such rows."""
    whole = report.whole
    parts = [_summary(whole), _classes(whole)]
    if len(whole.classes) <= CLASSES:
        parts.append(_confusion(whole))
    else:
        parts.append(f"confusion matrix: {len(whole.classes):,} classes, too wide to show")
    if report.groups:
        parts.append(_groups(report))
    text = "\n\n".join(parts)
    return f"{text}\n\n{_NONE}: no such rows (0/0)" if _NONE in text.split() else text


def _summary(of: Scores) -> str:
    figures = [
        ("accuracy", of.accuracy),
        ("macro F1", of.macro_f1),
        ("weighted F1", of.weighted_f1),
        ("Matthews", of.matthews),
    ]
    if of.positive is not None:
        figures.insert(1, (f"F1 of {_name(of.positive)!r}", of.value("f1")))
    said = "  ".join(f"{name} {_figure(value)}" for name, value in figures)
    line = f"{of.rows:,} rows  {said}"
    if of.macro_f1 != of.macro_f1_zero_division_0:
        other = _figure(of.macro_f1_zero_division_0)
        line += f"\nmacro F1 leaves out classes that occur nowhere; with 0 for them it is {other}"
    return line


def _classes(of: Scores) -> str:
    lines = [
        (
            _name(each.name) + (" (positive)" if each.name == of.positive else ""),
            *map(_figure, (each.precision, each.recall, each.f1)),
            f"{each.support:,}",
            f"{each.predicted:,}",
        )
        for each in of.classes
    ]
    return _aligned(("class", "precision", "recall", "F1", "rows", "predicted"), lines)


def _confusion(of: Scores) -> str:
    names = [_name(each.name) for each in of.classes]
    lines = [
        (name, *(f"{count:,}" for count in row))
        for name, row in zip(names, of.confusion, strict=True)
    ]
    return _aligned(("true \\ predicted", *names), lines)


def _groups(report: MetricsReport) -> str:
    weakest = sorted(
        report.groups.items(),
        key=lambda group: (group[1].macro_f1 is None, group[1].macro_f1, -group[1].rows, group[0]),
    )
    lines = [
        (_name(name), f"{of.rows:,}", *map(_figure, (of.accuracy, of.macro_f1, of.weighted_f1)))
        for name, of in weakest[:GROUPS]
    ]
    table = _aligned(("group", "rows", "accuracy", "macro F1", "weighted F1"), lines)
    more = len(weakest) - GROUPS
    return f"{table}\n... and {more:,} more groups, none of them weaker" if more > 0 else table


def _figure(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}"


def _name(name: str) -> str:
    """Return a name that stays on its line and in its column."""
    plain = visible(name).replace("\n", "?")
    if cell_len(plain) <= NAME:
        return plain
    return f"{set_cell_size(plain, NAME - 3).rstrip()}..."


def _aligned(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return columns two blanks apart: the first to the left, numbers to the right."""
    rows = [titles, *lines]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    text = []
    for row in rows:
        first = row[0] + " " * (widths[0] - cell_len(row[0]))
        rest = (
            " " * (width - cell_len(cell)) + cell
            for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        text.append("  ".join([first, *rest]).rstrip())
    return "\n".join(text)
