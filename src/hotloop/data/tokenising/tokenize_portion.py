"""Turn a portion of a file into tokens, as a worker process does: parse, shape, encode."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults, Policy
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.records import rows
from hotloop.data.tokenising.chat_templates import Template
from hotloop.data.tokenising.encode import Encoded, Encoder
from hotloop.data.tokenising.row_shapes import RowLayout
from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.data.readers.portions import Portion
    from hotloop.data.tokenising.row_shapes import Text

__all__ = ["Read", "Setup", "Turned", "Turner"]

UNUSABLE = "unusable row"  # a kind of fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All settings of a worker, as values that go through a pipe."""

    vocabulary: TokenizerSpec
    layout: RowLayout
    template: Template | None
    backend: str
    policy: Policy

    def plain(self) -> dict[str, Any]:
        """Return the value that `from_plain` reads, as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Setup:
        """Return the setup with this `plain()`."""
        template = plain["template"]
        return cls(
            vocabulary=TokenizerSpec.from_plain(plain["vocabulary"]),
            layout=RowLayout(**plain["layout"]),
            template=None if template is None else Template(**template),
            backend=plain["backend"],
            policy=plain["policy"],
        )

    @property
    def has_mask(self) -> bool:
        """Return whether some tokens carry no loss."""
        return self.layout.loss != "all"

    @property
    def has_pairs(self) -> bool:
        """Return whether texts come in pairs."""
        return self.layout.shape == "pair"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turned:
    """The result of a portion."""

    encoded: Encoded
    words: Mapping[str, list[Any]]  # label, task: [texts]
    faults: Mapping[str, Any]  # Faults.plain()
    rows: int = 0  # that were read, with the bad ones
    bytes: int = 0  # of the portion, unpacked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """The texts of a portion."""

    texts: Sequence[Text]
    faults: Mapping[str, Any]  # Faults.plain()
    rows: int  # that were read, with the bad ones
    bytes: int  # of the portion, unpacked


class Turner:
    """Turn portions into tokens, one after the other."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._encoder = Encoder(
            setup.vocabulary,
            has_loss_mask=setup.has_mask,
            has_pairs=setup.has_pairs,
            backend=setup.backend,
        )

    def turn(self, portion: Portion, *, only_look: bool = False) -> Turned:
        """Return the tokens of a portion; with `only_look`, only its faults."""
        return self.encode(self.read(portion), only_look=only_look)

    def read(self, portion: Portion) -> Read:
        """Parse a portion and give its rows their shape."""
        faults = Faults(self._setup.policy)
        rows_read = [0]
        texts = list(self._texts(portion, faults, rows_read))
        return Read(texts=texts, faults=faults.plain(), rows=rows_read[0], bytes=len(portion.data))

    def encode(self, parsed: Read, *, only_look: bool = False) -> Turned:
        """Return the tokens of a result of `parsed`; another thread may read on meanwhile."""
        texts = [] if only_look else parsed.texts
        encoded = self._encoder.encode(texts)
        if not encoded.lengths.all():
            raise AssertionError("a text that is not empty has tokens")
        named = [name for name in ("label", "task", "report") if name in self._setup.layout.fields]
        words = {} if only_look else {n: [getattr(text, n) for text in texts] for n in named}
        return Turned(
            encoded=encoded, words=words, faults=parsed.faults, rows=parsed.rows, bytes=parsed.bytes
        )

    def _texts(self, portion: Portion, faults: Faults, rows_read: list[int]) -> Iterator[Text]:
        layout, template = self._setup.layout, self._setup.template
        is_plain_text = FORMATS[portion.format].is_plain_text
        for place, row in rows(portion, faults):
            rows_read[0] += 1
            if is_plain_text and not row["text"].strip():
                continue  # the blank end of a file
            try:
                texts = list(layout.texts(row, template))
            except DataError as error:
                faults.add(place, UNUSABLE, str(error))
                continue
            if is_plain_text:
                ends = {name: row[name] for name in ("is_first", "is_last")}
                texts = [replace(text, **ends) for text in texts]
            yield from texts
        rows_read[0] += faults.count - faults.kinds[UNUSABLE] - faults.replaced
