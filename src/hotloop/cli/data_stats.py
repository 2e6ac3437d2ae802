"""hotloop data stats: what data are like in tokens, and the way to make batches that suits them.

DIR is a folder that hotloop data tokenize made; files of rows are tokenised on the way with
--tokenizer, and nothing of them is kept. Lengths, what is cut off at given lengths, padding and
steps of each way to make batches, copies within and across splits, labels, and the first documents
with what carries loss in «».
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from hotloop.cli.arguments.data import FILE_WIDTH, ProgressLine, add_options, at_least, settings
from hotloop.cli.terminal.lines import console_of, keep_json
from hotloop.core.errors import DataError, UsageError
from hotloop.core.storage.files import write_file
from hotloop.core.units import many
from hotloop.report.datastats import page, percent
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from hotloop.data.statistics.decoded_documents import Span
    from hotloop.data.statistics.token_statistics import CopiedDocuments, Split, TokenStatistics
    from hotloop.data.tokenising.progress import TokenizeProgress

__all__ = ["run"]

LABELS: Final = 10  # shown; the others are counted
_BAR: Final = " ▏▎▍▌▋▊▉█"


def run(args: Sequence[str], *, console: Console | None = None) -> int:
    """Run the verb; return 0 if the data could be read. `console` is a seam."""
    options = _parser().parse_args(args)
    at_least(options, batch=1, length=1, multiple=1, samples=0, processes=0)
    line = ProgressLine(quiet=options.quiet)
    try:
        result = _statistics(options, line.notify)
    finally:
        line.clear()
    keep_json(options.json, result.to_json())
    if options.html is not None:
        write_file(options.html, page(result))
    out = console or console_of(sys.stdout, FILE_WIDTH)
    _show(result, out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hotloop data stats", description=__doc__)
    add = parser.add_argument
    add("sources", nargs="+", metavar="DIR|SOURCE", help="a folder of tokens, or files of rows")
    add("--tokenizer", metavar="DIR_OR_ID", help="a model folder, or a hub id: for files of rows")
    add("--batch", type=int, default=16, metavar="N", help="rows of a batch (default 16)")
    add("--length", type=int, metavar="N", help="tokens of the longest row a batch takes")
    add(
        "--multiple",
        type=int,
        default=8,
        metavar="N",
        help="widths of padded batches are rounded up to a multiple of N (default 8; 1: not)",
    )
    add("--lengths", metavar="N,N,...", help="lengths at which truncation is told")
    add("--samples", type=int, default=2, metavar="N", help="documents shown of each split")
    add_options(parser)
    add("--json", type=Path, metavar="PATH", help="write the statistics as JSON")
    add("--html", type=Path, metavar="PATH", help="write them as a page")
    add("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _statistics(
    options: argparse.Namespace, notify: Callable[[TokenizeProgress], None]
) -> TokenStatistics:
    lengths = _numbers(options.lengths)
    folders = [name for name in options.sources if (Path(name) / "about.json").is_file()]
    if not folders:
        return _of_sources(options, lengths, notify)
    if len(options.sources) > 1:
        raise UsageError(f"{folders[0]} is a folder of tokens: name it alone")
    return _of_folder(options, Path(folders[0]), lengths, notify)


def _of_sources(
    options: argparse.Namespace, lengths: Sequence[int], notify: Callable[[TokenizeProgress], None]
) -> TokenStatistics:
    from hotloop.data.readers.records import find_sources
    from hotloop.data.statistics.document_digests import of_sources
    from hotloop.data.statistics.token_statistics import statistics
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.tokenizer_files import find_tokenizer

    sources = find_sources(options.sources, format=options.format, documents=options.documents)
    if options.tokenizer is None:
        raise UsageError("files of rows are counted in tokens: --tokenizer DIR_OR_ID says whose")
    vocabulary = find_tokenizer(options.tokenizer)
    order = TokenizeRequest(vocabulary=vocabulary, out=Path(), **settings(options))
    splits, setup, notes = of_sources(sources.files, order, notify=notify)
    return statistics(
        splits,
        name=", ".join(options.sources),
        tokenizer=vocabulary.name,
        source=vocabulary.source,
        shape=setup.layout.shape,
        length=options.length,
        **_shared(options, lengths),
        notes=[*sources.notes, *notes],
    )


def _of_folder(
    options: argparse.Namespace,
    folder: Path,
    lengths: Sequence[int],
    notify: Callable[[TokenizeProgress], None],
) -> TokenStatistics:
    from hotloop.data.statistics.document_digests import of_store
    from hotloop.data.statistics.token_statistics import statistics
    from hotloop.data.tokenising.token_store import open_store
    from hotloop.data.tokenising.tokenizer_files import find_tokenizer

    store = open_store(folder)
    identity = store.identity
    splits, notes = of_store(store, notify=notify)
    name, source = options.tokenizer or identity["tokenizer_name"], None
    try:
        vocabulary = find_tokenizer(name)
        if vocabulary.fingerprint == identity["tokenizer"]:
            source = vocabulary.source
        else:
            notes.append(f"the tokenizer {name} is not the one of these tokens: ids are shown")
    except DataError as error:
        notes.append(f"the tokenizer of these tokens is gone ({error}): ids are shown")
    is_packed = store.about["columns"]["is_packed"]
    return statistics(
        splits,
        name=str(folder),
        tokenizer=name,
        source=source,
        shape=identity["shape"],
        length=options.length or (identity["length"] if is_packed else None),
        **_shared(options, lengths),
        notes=[*store.about["notes"], *notes],
    )


def _shared(options: argparse.Namespace, lengths: Sequence[int]) -> dict[str, Any]:
    more = {name: getattr(options, name) for name in ("batch", "multiple", "samples")}
    return {**more, "lengths": lengths}


def _numbers(text: str | None) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"--lengths {text!r}: expected numbers of tokens, such as 512,1024,2048")
    return [int(word) for word in words]


def _show(result: TokenStatistics, out: Console) -> None:
    _say(out, result.name, style="bold", indent=0)
    _say(out, f"{result.shape} rows, tokens of {result.tokenizer}", indent=0)
    for note in result.notes:
        _say(out, f"note: {note}", indent=0)
    for split in result.splits:
        out.print()
        _split(split, result, out)
    out.print()
    _copies(result.copies, out)


def _split(split: Split, result: TokenStatistics, out: Console) -> None:
    _say(out, split.name, style="bold", indent=0)
    _say(out, _sum(split))
    lengths = split.lengths
    _say(
        out,
        f"tokens of a document: min {lengths.min:,}, median {lengths.median:,}, "
        f"mean {lengths.mean:,.1f}, 95% up to {lengths.p95:,}, 99% up to {lengths.p99:,}, "
        f"max {lengths.max:,}",
    )
    _histogram(split, out)
    _say(out, f"{'cut off after':<14} {'documents':>9} {'tokens':>8}")
    for cut in split.cuts:
        _say(
            out,
            f"{cut.length:>7,} tokens {percent(cut.documents):>9} {percent(cut.tokens):>8}",
        )
    _ways(split, result, out)
    _say(out, f"recommended: {split.recommended}: {split.why}")
    _labels(split, out)
    for number, sample in enumerate(split.samples, 1):
        _say(out, f"document {number}")
        _text(sample, out, indent=4)


def _sum(split: Split) -> str:
    facts = [many(split.documents, "document"), f"{split.tokens:,} tokens"]
    if split.learned == split.tokens:
        facts.append("all carry loss")
    else:
        facts.append(f"{split.learned:,} carry loss ({split.learned / split.tokens:.0%})")
    if split.unlearned:
        facts.append(f"{many(split.unlearned, 'document')} without any loss")
    if split.bad:
        facts.append(f"{many(split.bad, 'bad row')} left out")
    return ", ".join(facts)


def _histogram(split: Split, out: Console) -> None:
    bins = split.histogram
    spans = [f"{b.low:,}" if b.low == b.high else f"{b.low:,}-{b.high:,}" for b in bins]
    wide, figures = max(map(len, spans)), max(len(f"{b.documents:,}") for b in bins)
    room = max(4, min(60, out.width - wide - figures - 5))
    most = max(b.documents for b in bins)
    for span, bucket in zip(spans, bins, strict=True):
        bar = _bar(bucket.documents / most, room)
        _say(out, f"{span:>{wide}} {bucket.documents:>{figures},} {bar}".rstrip())


def _bar(share: float, room: int) -> str:
    """Return a bar of up to `room` columns; a share above 0 is always visible."""
    eighths = max(int(share > 0), round(share * room * 8))
    return "█" * (eighths // 8) + _BAR[eighths % 8].strip()


def _ways(split: Split, result: TokenStatistics, out: Console) -> None:
    caption = (
        f"batches of {result.batch} rows of at most {result.length:,} tokens, padded to a multiple "
        f"of {result.multiple}; slots to compute for a token, by those of dynamic"
    )
    _say(out, caption)
    loses = any(way.lost for way in split.strategies)
    _say(out, f"{'':10}{'padding':>8} {'steps':>6} {'slots':>5}{'   lost' if loses else ''}")
    for way in split.strategies:
        is_best = way.name == split.recommended
        lost = f" {percent(way.lost):>6}" if loses else ""
        _say(
            out,
            f"{'*' if is_best else ' '} {way.name:<8}{percent(way.padding):>8} {way.steps:>6,} "
            f"{1 - way.saves:>4.2f}x{lost}",
            style="bold" if is_best else "",
        )


def _labels(split: Split, out: Console) -> None:
    if not split.labels or split.imbalance is None:
        return
    _say(out, f"labels: the most frequent is there {split.imbalance:,.1f}x as often as the rarest")
    for label in split.labels[:LABELS]:
        _say(out, f"{label.documents:>9,} {percent(label.share):>6} {label.name}")
    if (more := len(split.labels) - LABELS) > 0:
        _say(out, f"and {more:,} more")


def _copies(copies: Sequence[CopiedDocuments], out: Console) -> None:
    _say(out, "exact copies", style="bold", indent=0)
    for entry in copies:
        copied = entry.copies
        where = "an earlier one" if copied.split == copied.of else f"one of {copied.of}"
        _say(
            out,
            f"{copied.split}: {copied.documents:,} ({percent(copied.share)}) are a copy of {where}",
        )
        if entry.text:
            _say(out, f"one is there {copied.times:,} times:", indent=4)
            _text(entry.text, out, indent=4)


def _say(out: Console, text: str, *, style: str = "", indent: int = 2) -> None:
    _print_wrapped(Text(visible(text), style), out, indent)


def _text(spans: Sequence[Span], out: Console, *, indent: int) -> None:
    """Print a document; spans that carry loss are in «» unless all do."""
    is_marked = not all(span.is_learned for span in spans)
    shown = Text()
    for span in spans:
        whole = span.text
        if span.left_out:
            whole += f" [... {span.left_out:,} tokens ...] {span.end}"
        is_learned = is_marked and span.is_learned
        visible_text = visible(whole)
        shown.append(
            f"«{visible_text}»" if is_learned else visible_text,
            "bold underline" if is_learned else "dim",
        )
    _print_wrapped(shown, out, indent)


def _print_wrapped(text: Text, out: Console, indent: int) -> None:
    for line in text.wrap(out, max(1, out.width - indent), overflow="fold"):
        line.rstrip()
        out.print(Text(" " * indent).append_text(line), overflow="fold")
