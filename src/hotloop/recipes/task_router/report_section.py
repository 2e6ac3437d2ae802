"""The section on routing in a task router's page: routes, answers, and other ways of routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.recipes.task_router.score_table import columns, counted, figure_text
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
    answers, blocks = _saved_answers(run), list[Html]()
    if answers is not None:
        blocks += _answer_tables(answers)
    elif "routing_accuracy" in last:
        blocks.append(_misrouted(last))
    if figures and len(run.history.validations) > 1:
        charts = (curves.figure(shown, name, title, up=up) for name, (title, up) in figures.items())
        blocks.append(sections.charts(*charts))
    elif figures:
        rows = [(title, f"{last[name]:.4f}", unit) for name, (title, unit) in figures.items()]
        numbers = table(["figure", "value", "unit"], rows, caption=_ONE, kind="numbers")
        blocks.append(tag("div", numbers, class_="panel"))
    if answers is None and run.status == "complete" and names:
        blocks.append(missing(f"How rows are answered: hotloop predict {run.path} --baselines"))
    if not blocks:
        blocks.append(missing("No validation was made."))
    return sections.section("Tasks and routes", *blocks)


def _last(run: Facts) -> Mapping[str, float]:
    return run.history.validations[-1].figures if run.history.validations else {}


def _saved_answers(run: Facts) -> Mapping[str, Any] | None:
    """Return the answers that `hotloop predict` saved in the folder; None: missing or damaged."""
    path = RunDir(run.path).answers
    try:
        answers = read_json(path) if path.is_file() else None
    except DataError:
        return None
    return answers if isinstance(answers, dict) and "ways" in answers else None


def _misrouted(last: Mapping[str, float]) -> Html:
    rows = [
        (*name.removeprefix(_WENT).split(_ARROW), f"{share:.1%}")
        for name, share in last.items()
        if name.startswith(_WENT)
    ]
    if not rows:
        return tag("p", "Every row of the last validation went to its own task.", class_="lead")
    caption = "Rows of the last validation that went to another task, of all rows of theirs"
    return table(["task", "went to", "share"], rows, caption=caption, kind="numbers")


def _answer_tables(answers: Mapping[str, Any]) -> Iterator[Html]:
    ways, rows_of = answers["ways"], counted(answers)
    if (scores := answers.get("routing")) is not None:
        yield _confusion(answers["tasks"], scores["confusion"], rows_of)
    rows = [("mean score", *(f"{way['score']:.4f}" for way in ways.values()))]
    rows += [
        (f"{task} {figure}", *(figure_text(way, task, figure) for way in ways.values()))
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
        shades = (min(_SHADES - 1, _SHADES * count // whole) for count in row)
        cells = (
            tag("span", f"{count:,}", class_=f"heat h{shade}")
            for count, shade in zip(row, shades, strict=True)
        )
        rows.append((name, *cells))
    caption = f"Where rows of a task (down) were routed (across): {rows_of}"
    heat_map = table(["task", *names], rows, caption=caption, kind="numbers")
    return tag("div", heat_map, class_="panel scrolls")
