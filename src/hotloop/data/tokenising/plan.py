"""Find out, from the first rows, how an order turns data into tokens, and what identifies them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.readers.advised_options import said
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.portions import PORTION_BYTES
from hotloop.data.readers.records import head
from hotloop.data.tokenising.arrow_file import Columns
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.progress import TokenizeProgress
from hotloop.data.tokenising.rows import WINDOW, Packing
from hotloop.data.tokenising.taken import refuse_unread_answers, samples, taken
from hotloop.data.tokenising.token_store import FORMAT, FORMAT_OF_TABLES, described
from hotloop.data.tokenising.tokenize_portion import Setup
from hotloop.data.tokenising.worker_pool import looked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.readers.bad_rows import Policy
    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.row_shapes import RowLayout, Text
    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

__all__ = [
    "Engine",
    "TokenizePlan",
    "TokenizeRequest",
    "TokenizeSpec",
    "by_position",
    "prepared",
    "wanted",
]

Engine = Literal["local", "ray"]  # where portions are turned into tokens

_CELLS: Final = 4  # cells of a row in a message
_SAMPLE: Final = 200  # rows that decide the shape, and whether a fast back end is right
_COMPARED: Final = 1 << 20  # characters of the sample that back ends are compared on
_MASKS: Final = {"completion": "completion_mask", "assistant": "assistant_masks"}  # TRL's names


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """How to turn rows into tokens, and where to write them."""

    vocabulary: TokenizerSpec
    out: Path
    packing: Packing = field(default_factory=Packing)
    shape: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()  # keys that look like answers, and are not read
    loss: str | None = None
    # chatml or tokenizer; None: for chats the tokenizer's own if it has one, for prompts none
    template: str | None = None
    policy: Policy = "stop"
    backend: str = "auto"
    processes: int | None = None  # workers; None: as many as cores, or none if that is faster
    cores: int = 1
    engine: Engine = "local"  # has no influence on the result
    address: str | None = None  # of a Ray cluster; None: start one
    window: int = WINDOW  # tokens that are packed together, at least
    portion: int = PORTION_BYTES  # bytes of data that a process turns at a time
    said: Said = None  # the user's words for these options, for messages

    def workers(self, backend: str) -> int:
        """Return the number of worker processes."""
        if self.processes is not None:
            return self.processes
        # gigatoken has its own threads, and each process would take another 100 MB.
        return 0 if backend == "gigatoken" and self.engine == "local" else self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizePlan:
    """The meaning of an order for some data."""

    setup: Setup  # with the back end tokenizers, until `decided`
    columns: Columns
    notes: tuple[str, ...]  # first what is taken of a row
    sample: Sequence[Text]  # of the first rows
    longest: int | None  # tokens that stay of a text; None: all

    def decided(self, backend: str) -> TokenizePlan:
        """Return the plan with the best back end here; `auto` compares two, which takes 1.5 s.

        Raises ConfigError or DeviceError if the named back end is wrong or missing.
        """
        sizes = accumulate(len(text.text) for text in self.sample)
        upto = next((count for count, size in enumerate(sizes, 1) if size > _COMPARED), None)
        chosen, why = looked(self.setup.vocabulary, self.sample[:upto], backend)
        notes = [] if why is None else [f"tokenised by {chosen}: {why}"]
        setup, (first, *rest) = replace(self.setup, backend=chosen), self.notes
        shown = samples(self.sample, setup.layout, setup.vocabulary, longest=self.longest)
        return replace(self, setup=setup, notes=(*notes, first, *shown, *rest))


def prepared(sources: Sequence[RecordFile], order: TokenizeRequest) -> TokenizePlan:
    """Read the first rows, and return the plan.

    Raises ConfigError or DataError if the rows lack something that the order requires.
    """
    vocabulary, notes = order.vocabulary, []
    first = [row for _, row in head(sources[0], _SAMPLE, policy=order.policy)]
    if first and not sources[0].has_names:
        cells = ", ".join(map(repr, list(first[0].values())[:_CELLS]))
        notes.append(f"columns are named by position, so the first row is data: {cells}")
    row_layout = _layout(sources, first, order)
    is_packed = order.packing.tokens is not None
    if row_layout.shape == "text" and order.shape is None and "text" not in order.fields:
        refuse_unread_answers(first, row_layout, order.ignored, order.said)
    _refuse_unfit(row_layout.shape, order)
    is_rendered = row_layout.shape == "chat" or order.template is not None
    template = vocabulary.chat(order.template, order.said) if is_rendered else None
    if row_layout.shape == "pair" and "text_b" in row_layout.fields and not vocabulary.parts_pairs:
        row_layout = replace(row_layout, joint="\n")
        notes.append("the tokenizer puts nothing between the texts of a pair: a line break does")
    if vocabulary.eos is None and row_layout.shape != "pair":
        notes.append("the tokenizer has no end-of-text token: nothing marks where a text ends")
    if is_packed and {"label", "task", "report"} & set(row_layout.fields):
        notes.append("labels and tasks are left out: a packed row holds several texts")
    sample: list[Text] = []
    for row in first:
        with suppress(DataError):  # it is raised again later, with its location
            sample += row_layout.texts(row, template)
    setup = Setup(
        vocabulary=vocabulary,
        layout=row_layout,
        template=template,
        backend="tokenizers",
        policy=order.policy,
    )
    columns = Columns(
        is_narrow=vocabulary.is_narrow,
        is_packed=is_packed,
        mask=_MASKS.get(row_layout.loss),
        has_types=setup.has_pairs,
        label=None if is_packed or "label" not in row_layout.fields else row_layout.labels,
        has_task=not is_packed and "task" in row_layout.fields,
        has_report=not is_packed and "report" in row_layout.fields,
    )
    if row_layout.marks is not None and row_layout.loss == "all":
        way = said("--loss completion", order.said) or "a loss of the answers"
        notes.append(f"the texts are chats in {row_layout.marks}'s marks: {way} learns the answers")
    labels = dict.fromkeys(text.label for text in sample if text.label is not None)
    return TokenizePlan(
        setup=setup,
        columns=columns,
        notes=(taken(first, row_layout, list(labels)), *notes),
        sample=sample,
        longest=order.packing.tokens or order.packing.longest,
    )


def by_position(files: Sequence[RecordFile], fields: Mapping[str, str]) -> Sequence[RecordFile]:
    """Return files without a header as such, where every key that is named is a position."""
    keys = [key for key in fields.values() if key]
    if not keys or not all(map(str.isdecimal, keys)):
        return files
    return [
        replace(file, has_names=False) if FORMATS[file.format].has_header else file
        for file in files
    ]


def _layout(
    sources: Sequence[RecordFile], first: Sequence[Mapping[str, Any]], order: TokenizeRequest
) -> RowLayout:
    """Return how rows are read; DataError, with the first file's name, if that cannot be told."""
    try:
        return layout(
            first,
            shape=order.shape,
            fields=order.fields,
            loss=order.loss,
            whole_below=_SAMPLE,
            by=order.said,
        )
    except DataError as error:
        raise DataError(f"{sources[0].name}: {error}{_more_advice(sources, first)}") from error


def _refuse_unfit(shape: str, order: TokenizeRequest) -> None:
    """Raise ConfigError for a template or packing that rows of a shape do not have."""
    if order.template is not None and shape in ("text", "pair"):
        option = said("--template", order.said) or "a chat template"
        raise ConfigError(f"{option} is for chats and answers, these rows are of shape {shape}")
    if order.packing.tokens is not None and shape == "pair":
        off = said("leave --pack out", order.said)
        raise ConfigError(
            "pairs are not packed: an encoder reads one pair a row" + (f"; {off}" if off else "")
        )


def _more_advice(sources: Sequence[RecordFile], first: Sequence[Mapping[str, Any]]) -> str:
    """Return what else may be wrong where the first file's rows cannot be read."""
    advice = ""
    if len(sources) > 1:
        advice += (
            f"; this is the first of {len(sources)} files: if it does not belong, name the others"
        )
    is_named = first and list(first[0]) != list(map(str, range(len(first[0]))))
    if is_named and FORMATS[sources[0].format].has_header:
        advice += (
            "; if its first row is data, not a header, name the columns by position: 0, 1, ..."
        )
    return advice


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeSpec:
    """The rows that an order makes of some data."""

    prepared: TokenizePlan
    identity: Mapping[str, Any]  # everything that decides what the rows are


def wanted(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> TokenizeSpec:
    """Read the first rows, and hash all bytes of the data to recognise changes.

    Raises the errors of `prepared`.
    """
    sources = by_position(sources, order.fields)
    notify(TokenizeProgress(what="checksums of the data"))
    begun = prepared(sources, order)
    return TokenizeSpec(prepared=begun, identity=_identity(order, begun.setup, sources))


def _is_table(source: RecordFile) -> bool:
    format = FORMATS[source.format]
    return format.has_header or format.is_columnar


def _identity(
    order: TokenizeRequest, setup: Setup, sources: Sequence[RecordFile]
) -> dict[str, Any]:
    template, joint, marks = setup.template, setup.layout.joint, setup.layout.marks
    unanswered = setup.layout.unanswered
    return {
        "format": FORMAT_OF_TABLES if any(map(_is_table, sources)) else FORMAT,
        "tokenizer": order.vocabulary.fingerprint,
        "tokenizer_name": order.vocabulary.name,
        "shape": setup.layout.shape,
        "fields": dict(setup.layout.fields),
        **({} if joint is None else {"joint": joint}),
        **({"marks": marks} if marks is not None and setup.layout.loss != "all" else {}),
        **({"within": list(setup.layout.within)} if setup.layout.within else {}),
        **({} if unanswered is None else {"unanswered": unanswered}),
        **({"unlabelled": list(setup.layout.unlabelled)} if setup.layout.unlabelled else {}),
        "loss": setup.layout.loss,
        "template": None if template is None else template.fingerprint,
        "length": order.packing.tokens or order.packing.longest,
        "strategy": None if order.packing.tokens is None else order.packing.strategy,
        "bad_rows": order.policy,
        "window": [order.window, order.portion],
        "data": described(sources),
    }
