"""Of a task router: how rows were routed and each task answered, and what other ways would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError
from hotloop.core.files import read_json
from hotloop.core.rundir import RunDir
from hotloop.report import curves, sections
from hotloop.report.markup import Html, join, missing, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.report.facts import Facts

__all__ = ["routing"]

RECIPE = "task-router"
_RIGHT, _TOKENS, _WENT, _ARROW = ": right", ": tokens right", "routed ", " -> "
_ROUTES = {
    "routing_accuracy": "Rows routed to their own task",
    "routing_confidence": "Mean probability of the task that was taken",
    "routing_entropy": "Entropy of the router's belief, nats",
    "routing_balance": "Entropy of the adapters' use, of its most",
}
_SHADES = 10  # classes of page.css


def routing(run: Facts) -> Html:
    """Return the section of a run of task-router; of others nothing."""
    if run.recipe != RECIPE:
        return Html("")
    shown, last = curves.Shown(run=run, look="a"), _last(run)
    names = [name.removesuffix(_RIGHT) for name in last if name.endswith(_RIGHT)]
    tasks = [n + (_TOKENS if n + _TOKENS in last else _RIGHT) for n in names]
    drawn = [curves.figure(shown, name, name) for name in tasks]
    drawn += [curves.figure(shown, name, title) for name, title in _ROUTES.items() if name in last]
    answers = _answers(run)
    parts: list[Html] = [sections.charts(*drawn)] if drawn else []
    if answers is not None:
        parts += _answered(answers)
    elif "routing_accuracy" in last:
        parts.append(_astray(last))
    if answers is None and run.status == "complete" and names:
        parts.append(missing(f"How rows are answered: hotloop predict {run.path} --baselines"))
    if not parts:
        parts.append(missing("No validation was made."))
    return sections.section("Tasks and routes", *parts)


def _last(run: Facts) -> Mapping[str, float]:
    return run.history.validations[-1].figures if run.history.validations else {}


def _answers(run: Facts) -> Mapping[str, Any] | None:
    """Return what `hotloop predict` left in the folder, if anything that can be read."""
    path = RunDir(run.path).answers
    try:
        found = read_json(path) if path.is_file() else None
    except DataError:
        return None
    return found if isinstance(found, dict) and "ways" in found else None


def _astray(last: Mapping[str, float]) -> Html:
    rows = [
        (*name.removeprefix(_WENT).split(_ARROW), f"{share:.1%}")
        for name, share in last.items()
        if name.startswith(_WENT)
    ]
    if not rows:
        return tag("p", "Every row of the last validation went to its own task.", class_="lead")
    caption = "Rows of the last validation that went to another task, of all rows of theirs"
    return table(["task", "went to", "share"], rows, caption=caption, kind="numbers")


def _answered(answers: Mapping[str, Any]) -> Iterator[Html]:
    names, ways = answers["tasks"], answers["ways"]
    counted = ", ".join(f"{n} {rows:,}" for n, rows in zip(names, answers["rows"], strict=True))
    if (found := answers.get("routing")) is not None:
        yield _confusion(names, found["confusion"], counted)
    figures = [
        (task, figure)
        for task in names
        for figure in next(iter(ways.values()))["figures"].get(task, {})
    ]
    rows = [
        (
            way,
            _bar(each["score"]),
            *(_figure(each["figures"].get(task, {}).get(figure)) for task, figure in figures),
        )
        for way, each in ways.items()
    ]
    titles = ["adapters", "mean score", *(f"{task} {figure}" for task, figure in figures)]
    caption = f"What ways of choosing adapters answer; held-out rows: {counted}"
    yield tag("div", table(titles, rows, caption=caption, kind="numbers"), class_="panel scrolls")
    if answers["notes"]:
        yield tag("p", " ".join(answers["notes"]), class_="soft")


def _confusion(names: Sequence[str], counts: Sequence[Sequence[int]], counted: str) -> Html:
    rows = []
    for name, row in zip(names, counts, strict=True):
        whole = max(1, sum(row))
        shades = (min(_SHADES - 1, _SHADES * each // whole) for each in row)
        cells = (
            tag("span", f"{each:,}", class_=f"heat h{shade}")
            for each, shade in zip(row, shades, strict=True)
        )
        rows.append((name, *cells))
    caption = f"Where rows of a task (down) were routed (across): {counted}"
    made = table(["task", *names], rows, caption=caption, kind="numbers")
    return tag("div", made, class_="panel scrolls")


def _bar(share: float) -> Html:
    """Return a score with a bar as long, in tenths."""
    tenths = min(_SHADES, max(0, round(_SHADES * share)))
    return join([tag("span", "", class_=f"bar w{tenths}", aria_hidden="true"), f"{share:.4f}"])


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value > 1 else f"{value:.4f}"
