"""The ranks of a run side by side: the time of each in a step, and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.core.units import bytes_, count, moment
from hotloop.report.markup import Html, join, missing, table, tag
from hotloop.report.sections import section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.storage.rank_logs import Rank, RankBalance
    from hotloop.report.facts import Facts

__all__ = ["ranks"]

_PHASES: Final = {
    "data": "data wait",
    "forward": "forward",
    "backward": "backward",
    "update": "update",
}
_MOST: Final = 256  # most ranks shown, so that a page stays small


def ranks(run: Facts) -> Html:
    """Return the section on the ranks of a run; empty for a run of one process."""
    if run.ranks is None:
        return Html()
    gaps = tag("ul", *(tag("li", gap) for gap in run.ranks.gaps), class_="notes panel")
    children = [_table(run.ranks), gaps if run.ranks.gaps else ""]
    return section("Ranks", *children)


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
    return tag(
        "div", join([table(titles, lines, caption=caption, kind="list"), remainder]), class_="panel"
    )


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
