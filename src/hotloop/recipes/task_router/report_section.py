"""The section of a task router's page: how rows were routed and answered, and by other ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.recipes.task_router.score_table import columns, counted, said
from hotloop.report import curves, sections
from hotloop.report.markup import Html, missing, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.report.facts import Facts

__all__ = ["routing"]

_RIGHT, _TOKENS, _WENT, _ARROW = ": right", ": tokens right", "routed ", " -> "
_ROUTES = {  # figure -> (what it is, its unit)
    "routing_accuracy": ("Rows routed to their own task", "share"),
    "routing_confidence": ("Mean probability of the task that was taken", "probability"),
    "routing_entropy": ("Entropy of the router's belief", "nats"),
    "routing_balance": ("Entropy of the adapters' use, of its most", "share"),
}
_ONE = "What the only validation found"
_SHADES = 10  # classes of page.css


def routing(run: Facts) -> Html:
    """Return the section."""
    shown, last = curves.Shown(run=run, look="a"), _last(run)
    names = [name.removesuffix(_RIGHT) for name in last if name.endswith(_RIGHT)]
    tasks = [n + (_TOKENS if n + _TOKENS in last else _RIGHT) for n in names]
    figures = {name: (name, "share") for name in tasks}
    figures |= {name: about for name, about in _ROUTES.items() if name in last}
    answers, parts = _answers(run), list[Html]()
    if answers is not None:
        parts += _answered(answers)
    elif "routing_accuracy" in last:
        parts.append(_astray(last))
    if figures and len(run.history.validations) > 1:
        drawn = (curves.figure(shown, name, what, up=up) for name, (what, up) in figures.items())
        parts.append(sections.charts(*drawn))
    elif figures:
        rows = [(what, f"{last[name]:.4f}", unit) for name, (what, unit) in figures.items()]
        made = table(["figure", "value", "unit"], rows, caption=_ONE, kind="numbers")
        parts.append(tag("div", made, class_="panel"))
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
    ways, rows_of = answers["ways"], counted(answers)
    if (found := answers.get("routing")) is not None:
        yield _confusion(answers["tasks"], found["confusion"], rows_of)
    rows = [("mean score", *(f"{each['score']:.4f}" for each in ways.values()))]
    rows += [
        (f"{task} {figure}", *(said(way, task, figure) for way in ways.values()))
        for task, figure in columns(answers)
    ]
    titles = ["", *ways]
    caption = f"What ways of choosing adapters answer; held-out rows: {rows_of}"
    yield tag(
        "div", table(titles, rows, caption=caption, kind="numbers ways"), class_="panel scrolls"
    )
    if answers["notes"]:
        yield tag("p", " ".join(answers["notes"]), class_="soft")


def _confusion(names: Sequence[str], counts: Sequence[Sequence[int]], rows_of: str) -> Html:
    rows = []
    for name, row in zip(names, counts, strict=True):
        whole = max(1, sum(row))
        shades = (min(_SHADES - 1, _SHADES * each // whole) for each in row)
        cells = (
            tag("span", f"{each:,}", class_=f"heat h{shade}")
            for each, shade in zip(row, shades, strict=True)
        )
        rows.append((name, *cells))
    caption = f"Where rows of a task (down) were routed (across): {rows_of}"
    made = table(["task", *names], rows, caption=caption, kind="numbers")
    return tag("div", made, class_="panel scrolls")
