"""The page of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.report import curves, sections
from hotloop.report.document import document
from hotloop.report.figures import figures
from hotloop.report.markup import UNKNOWN, Html, join, missing, tag
from hotloop.report.ranks import ranks
from hotloop.report.wall import wall

if TYPE_CHECKING:
    from hotloop.report.chart import Chart
    from hotloop.report.facts import Facts

__all__ = ["page"]

_NOTHING = Html("")


def page(
    run: Facts,
    *,
    own: Html = _NOTHING,
    sample: str | None = None,
    why_no_sample: str | None = None,
) -> str:
    """Return the report of a run as HTML.

    `own` is the recipe's own section; `sample` is text that the trained model generated.
    """
    runs = [curves.Shown(run=run, look="a")]
    main = tag(
        "main",
        sections.section("Losses", sections.charts(*_course(runs[0]))),
        own,
        sections.speed_and_memory(runs),
        sections.section("Where the wall time went", wall(run)),
        ranks(run),
        sections.section("Techniques", tag("div", _plan(run), class_="panel")),
        sections.descent(runs),
        sections.section("Notes", sections.notes(run)),
        sections.section("Sample", _sample(sample, why_no_sample)),
        sections.section("Model and data", _work(run)),
        sections.section("Settings", tag("div", sections.settings(run), class_="panel")),
    )
    title = f"{run.name}: {run.recipe or 'a run'}, status {run.status or UNKNOWN}"
    return document(title, _header(run), main)


def _course(shown: curves.Shown) -> list[Chart]:
    scores = [] if shown.run.judged_by is None else [curves.scores(shown)]
    return [curves.losses([shown]), *scores]


def _header(run: Facts) -> Html:
    name = tag("h1", run.recipe, " ", tag("small", run.name))
    top = tag("div", name, sections.status(run), class_="top")
    about = tag("div", sections.facts(sections.identity(run)), class_="about")
    return tag("header", top, about, sections.reason(run), sections.cards(figures(run)))


def _plan(run: Facts) -> Html:
    sentence = "The plan is unknown."
    if run.plan is not None:
        sentence = (
            f"Plan {run.plan.fingerprint}: {run.plan.micro_batch} samples in a micro batch, "
            f"{run.plan.accumulation} of them in an optimizer step"
            f"{'' if run.plan.ranks == 1 else f' of each of {run.plan.ranks} ranks'}."
        )
    return join([tag("p", sentence, class_="soft lead"), sections.techniques(run.techniques)])


def _sample(sample: str | None, why: str | None) -> Html:
    if sample is None:
        return missing(f"There is no sample: {why or 'none was asked for'}.")
    lead = tag("p", "What the best checkpoint of this run wrote.", class_="soft lead")
    return tag("div", lead, tag("pre", sample), class_="panel")


def _work(run: Facts) -> Html:
    about = {name: value for name, value in run.about.items() if name != "device"}
    panels = [tag("div", sections.facts(r), class_="panel") for r in (about, run.data) if r]
    if not panels:
        return missing("The run folder says nothing about them.")
    return tag("div", *panels, class_="two")
