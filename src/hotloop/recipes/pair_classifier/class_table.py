"""The scores of a classifier as plain text: classes, confusion matrix, groups (weakest first)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.recipes.building.metrics import MetricsReport, Scores

__all__ = ["GROUPS", "class_table", "weakest"]

CLASSES: Final = 12  # most classes of a printed confusion matrix
GROUPS: Final = 5  # most groups in the table; the file of --json has all
NAME: Final = 24  # terminal columns of a name

_NONE: Final = "-"


def class_table(report: MetricsReport) -> str:
    """Return a report as plain lines of text, with a note on "-" where it occurs."""
    whole = report.whole
    blocks = [_summary(whole), _classes(whole)]
    if len(whole.classes) <= CLASSES:
        blocks.append(_confusion(whole))
    else:
        blocks.append(f"confusion matrix: {len(whole.classes):,} classes, too wide to show")
    if report.groups:
        blocks.append(_groups(report))
    text = "\n\n".join(blocks)
    return f"{text}\n\n{_NONE}: no such rows (0/0)" if _NONE in text.split() else text


def _summary(scores: Scores) -> str:
    figures = [
        ("accuracy", scores.accuracy),
        ("macro F1", scores.macro_f1),
        ("weighted F1", scores.weighted_f1),
        ("Matthews", scores.matthews),
    ]
    if scores.positive is not None:
        figures.insert(1, (f"F1 of {_name(scores.positive)!r}", scores.value("f1")))
    figures_text = "  ".join(f"{name} {_figure(value)}" for name, value in figures)
    line = f"{scores.rows:,} rows  {figures_text}"
    if scores.macro_f1 != scores.macro_f1_zero_division_0:
        with_zeros = _figure(scores.macro_f1_zero_division_0)
        line += (
            f"\nmacro F1 leaves out classes that occur nowhere; with 0 for them it is {with_zeros}"
        )
    return line


def _classes(scores: Scores) -> str:
    lines = [
        (
            _name(score.name) + (" (positive)" if score.name == scores.positive else ""),
            *map(_figure, (score.precision, score.recall, score.f1)),
            f"{score.support:,}",
            f"{score.predicted:,}",
        )
        for score in scores.classes
    ]
    return _aligned(("class", "precision", "recall", "F1", "rows", "predicted"), lines)


def _confusion(scores: Scores) -> str:
    names = [_name(score.name) for score in scores.classes]
    lines = [
        (name, *(f"{count:,}" for count in row))
        for name, row in zip(names, scores.confusion, strict=True)
    ]
    return _aligned(("true \\ predicted", *names), lines)


def weakest(report: MetricsReport) -> list[tuple[str, Scores]]:
    """Return the groups with their scores, by macro F1; those without one come last."""
    return sorted(
        report.groups.items(),
        key=lambda group: (group[1].macro_f1 is None, group[1].macro_f1, -group[1].rows, group[0]),
    )


def _groups(report: MetricsReport) -> str:
    groups = weakest(report)
    lines = [
        (
            _name(name),
            f"{scores.rows:,}",
            *map(_figure, (scores.accuracy, scores.macro_f1, scores.weighted_f1)),
        )
        for name, scores in groups[:GROUPS]
    ]
    table = _aligned(("group", "rows", "accuracy", "macro F1", "weighted F1"), lines)
    more = len(groups) - GROUPS
    if more <= 0:
        return table
    return f"{table}\n... and {more:,} more groups, none of them weaker: --json PATH has all"


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
        numbers = (
            " " * (width - cell_len(cell)) + cell
            for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        text.append("  ".join([first, *numbers]).rstrip())
    return "\n".join(text)
