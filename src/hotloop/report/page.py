"""The page of one run, with its ranks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, moment
from hotloop.report import curves, sections
from hotloop.report.document import document
from hotloop.report.figures import figures
from hotloop.report.markup import UNKNOWN, Html, join, missing, notes, panel, table, tag
from hotloop.report.wall import wall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.storage.rank_logs import Rank, RankBalance
    from hotloop.report.chart import Chart
    from hotloop.report.facts import Facts

__all__ = ["page", "ranks"]

_NOTHING = Html("")
_PHASES = {
    "data": "data wait",
    "forward": "forward",
    "backward": "backward",
    "update": "update",
}
_MOST = 256  # most ranks shown, so that a page stays small


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
        sections.section("Techniques", panel(_plan(run))),
        sections.descent(runs),
        sections.section("Notes", sections.notes(run)),
        sections.section("Sample", _sample(sample, why_no_sample)),
        sections.section("Model and data", _work(run)),
        sections.section("Settings", panel(sections.settings(run))),
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
    return panel(lead, tag("pre", sample))


def _work(run: Facts) -> Html:
    about = {name: value for name, value in run.about.items() if name != "device"}
    panels = [panel(sections.facts(r)) for r in (about, run.data) if r]
    if not panels:
        return missing("The run folder says nothing about them.")
    return tag("div", *panels, class_="two")


def ranks(run: Facts) -> Html:
    """Return the section on the ranks of a run; empty for a run of one process."""
    if run.ranks is None:
        return Html()
    gaps = notes(run.ranks.gaps, none="") if run.ranks.gaps else ""
    return sections.section("Ranks", _table(run.ranks), gaps)


def _table(balance: RankBalance) -> Html:
    if not balance.each:
        return missing("The ranks cannot be compared.")
    titles = ("rank", "host", "step", *_PHASES.values(), "exchange", "tokens/s", "memory")
    lines = [_line(rank) for rank in balance.each[:_MOST]]
    rates = [_rate(rank) for rank in balance.each]
    if balance.whole and all(rates):
        total = count(sum(rate for rate in rates if rate is not None))
        blank = [""] * (len(titles) - 4)
        lines.append((tag("strong", "all"), "", *blank, tag("strong", total), ""))
    by = f" by {balance.backend}" if balance.backend else ""
    caption = (
        f"What each rank took for its own part of a step: the mean of {balance.steps:,} steps of "
        "the newest session without the longest twentieth. Exchange: it waited for the other "
        f"ranks, and for what travels between them{by}. Memory is the highest reading."
    )
    more = len(balance.each) - _MOST
    remainder = missing(f"and {more:,} more ranks") if more > 0 else ""
    return panel(table(titles, lines, caption=caption, kind="list"), remainder)


def _line(rank: Rank) -> Sequence[object]:
    rate = _rate(rank)
    return (
        f"{rank.number}",
        rank.host,
        _time(rank.step),
        *(_time(rank.own.get(phase)) for phase in _PHASES),
        _time(rank.exchange),
        None if rate is None else count(rate),
        None if rank.memory is None else bytes_(rank.memory),
    )


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)


def _rate(rank: Rank) -> float | None:
    """Return the rank's own tokens per second; None if its step time is unknown or 0."""
    return rank.tokens / rank.step if rank.step else None
