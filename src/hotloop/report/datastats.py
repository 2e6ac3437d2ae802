"""The page of a data set: lengths, padding, copies, labels and samples, split by split."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from hotloop.core.units import count
from hotloop.report.axis import Axis, linear
from hotloop.report.document import document
from hotloop.report.histogram import columns
from hotloop.report.markup import Html, code, join, notes, panel, table, tag
from hotloop.report.sections import facts, section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.data.statistics.decoded_documents import Span
    from hotloop.data.statistics.token_statistics import CopiedDocuments, Split, TokenStatistics

__all__ = ["page", "percent"]

LABELS = 50  # most labels shown; the others are counted
_GAP = 0.08  # of a column, left free beside it


def page(statistics: TokenStatistics) -> str:
    """Return the statistics as HTML."""
    name = PurePath(statistics.name).name or statistics.name
    header = tag(
        "header",
        tag("div", tag("h1", name, " ", tag("small", "data")), class_="top"),
        tag("div", *map(_advice, statistics.splits), class_="callout verdict complete"),
        tag("div", facts(_about(statistics)), class_="about"),
    )
    main = tag(
        "main",
        *(_split(split, number, statistics) for number, split in enumerate(statistics.splits)),
        section("Exact copies", _copies(statistics.copies)),
        section("Notes", notes(statistics.notes, none="There is nothing to note.")),
    )
    return document(f"{name}: statistics of tokens", header, main)


def percent(share: float) -> str:
    """Return a share as 12.3%; a share above 0 is never shown as 0.0%."""
    return f"{share:.1%}" if share >= 0.0005 or not share else "<0.1%"


def _advice(split: Split) -> Html:
    return tag("p", tag("strong", f"{split.name}: {split.recommended}"), f": {split.why}")


def _about(statistics: TokenStatistics) -> dict[str, object]:
    return {
        "data": code(statistics.name),
        "rows": statistics.shape,
        "tokenizer": code(statistics.tokenizer),
        "batches": f"{statistics.batch} rows of at most {statistics.length:,} tokens",
    }


def _split(split: Split, number: int, statistics: TokenStatistics) -> Html:
    panels: list[object] = [
        panel(facts(_sizes(split))),
        tag("div", _histogram(split, number), class_="charts below"),
        tag("div", _ways(split, statistics), class_="panel below"),
        tag("div", _cuts(split), class_="panel below"),
    ]
    if split.labels:
        panels.append(tag("div", _labels(split), class_="panel below"))
    for position, sample in enumerate(split.samples, 1):
        title = tag("h3", f"Document {position}")
        panels.append(tag("div", title, _text(sample), class_="panel below"))
    return section(split.name, *panels)


def _sizes(split: Split) -> dict[str, object]:
    lengths = split.lengths
    return {
        "documents": f"{split.documents:,}",
        "tokens": f"{split.tokens:,}",
        "carry loss": f"{split.learned:,} tokens ({split.learned / split.tokens:.0%})",
        "without any loss": f"{split.unlearned:,} documents",
        "bad rows left out": f"{split.bad:,}",
        "tokens of a document": (
            f"{lengths.min:,} to {lengths.max:,}; median {lengths.median:,}, "
            f"mean {lengths.mean:,.1f}, 95% up to {lengths.p95:,}, 99% up to {lengths.p99:,}"
        ),
    }


def _histogram(split: Split, number: int) -> Html:
    bins = split.histogram
    x = _across(bins[0].low, bins[-1].high + 1)
    lengths = split.lengths
    description = (
        f"{split.documents:,} documents of {lengths.min:,} to {lengths.max:,} tokens, "
        f"median {lengths.median:,}"
    )
    scale = "logarithmic: each column is as many times as wide" if x.logarithmic else "linear"
    return columns(
        [(b.low, b.high, b.documents) for b in bins],
        x,
        id=f"lengths-{number}",
        title="How long documents are",
        summary=f"{description}. Across: tokens, {scale}.",
        across="tokens of a document",
        up="documents",
        gap=_GAP,
        units=(" tokens", " documents"),
        look="chart wide",
    )


def _across(low: int, high: int) -> Axis:
    """Return an axis on which all columns are about equally wide, as bins grow by a factor."""
    if high - low < 8:
        return linear([float(low), float(high)], ticks=4, tight=True, least=1.0)
    fine = (1, 1.5, 2, 3, 4, 5, 6, 8) if high / low < 20 else (1, 2, 5)
    ticks = (factor * 10.0**power for power in range(-1, len(str(high)) + 1) for factor in fine)
    inside = tuple(tick for tick in ticks if low <= tick <= high and tick == int(tick))
    return Axis(low=low, high=high, ticks=inside, logarithmic=True)


def _ways(split: Split, statistics: TokenStatistics) -> Html:
    lines = [
        (
            tag("strong", f"{way.name} (recommended)")
            if way.name == split.recommended
            else way.name,
            percent(way.padding),
            f"{way.steps:,}",
            f"{1 - way.saves:.2f}x",
            percent(way.lost),
        )
        for way in split.strategies
    ]
    titles = ("batches", "padding", "steps per epoch", "slots for a token", "tokens cut off")
    caption = (
        f"Batches of {statistics.batch} rows of at most {statistics.length:,} tokens, padded to a "
        f"multiple of {statistics.multiple}; the budget is as many slots. Slots for a token: those "
        "of dynamic are 1."
    )
    return table(titles, lines, caption=caption, kind="numbers")


def _cuts(split: Split) -> Html:
    lines = [
        (f"{cut.length:,} tokens", percent(cut.documents), percent(cut.tokens))
        for cut in split.cuts
    ]
    caption = "What is lost where documents are cut off."
    return table(("cut off after", "documents cut", "tokens lost"), lines, caption=caption,
                 kind="numbers")  # fmt: skip


def _labels(split: Split) -> Html:
    shown = split.labels[:LABELS]
    lines = [(label.name, f"{label.documents:,}", percent(label.share)) for label in shown]
    more = len(split.labels) - len(shown)
    caption = (
        f"The most frequent label is there {split.imbalance:,.1f} times as often as the rarest"
        f"{f'; {more:,} more labels' if more else ''}."
    )
    return table(("label", "documents", "share"), lines, caption=caption, kind="numbers")


def _copies(copies: Sequence[CopiedDocuments]) -> Html:
    lines = []
    for copied in copies:
        share = copied.copies
        where = "an earlier one of it" if share.split == share.of else f"one of {share.of}"
        example = ""
        if copied.text:
            times = tag("p", f"there {share.times:,} times:", class_="soft")
            example = join([times, _text(copied.text)])
        what = f"{share.split}: a copy of {where}"
        lines.append((what, f"{share.documents:,}", percent(share.share), example))
    caption = "Documents whose tokens are all the same."
    titles = ("what", "documents", "share", "for example")
    return panel(table(titles, lines, caption=caption, kind="list"))


def _text(spans: Sequence[Span]) -> Html:
    """Return a document; mark the spans that carry loss if there are others."""
    is_marked = not all(span.is_learned for span in spans)
    pieces = []
    for span in spans:
        inside: list[object] = [span.text]
        if span.left_out:
            left = f" [… {count(span.left_out)} tokens …] "
            inside += [tag("span", left, class_="soft"), span.end]
        pieces.append(tag("mark", *inside) if is_marked and span.is_learned else join(inside))
    return tag("pre", *pieces)
