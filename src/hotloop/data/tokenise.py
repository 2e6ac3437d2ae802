"""Tokenises files once: reads, shapes, encodes, packs and writes, in bounded memory, on all cores.

What was written is on the platter after each window, with a journal that says how far the data were
read: the same command goes on from there after a kill, and the result is the same byte for byte,
whatever the number of processes and of kills.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.core.errors import ConfigError, DataError
from hotloop.core.files import (
    Growing,
    Journal,
    finish_folder,
    make_folder,
    read_json,
    remove_folder,
    write_json,
)
from hotloop.core.lock import Lock
from hotloop.data.clustered import Cluster, must_be_usable
from hotloop.data.crew import looked, turned
from hotloop.data.pace import Pace, Progress
from hotloop.data.portions import PORTION_BYTES
from hotloop.data.records import head as first_rows
from hotloop.data.records import work
from hotloop.data.rows import WINDOW, Packing, Window
from hotloop.data.shapes import layout
from hotloop.data.state import State
from hotloop.data.store import (
    ABOUT,
    FILE,
    FORMAT,
    SCHEMA,
    as_datasets_has_it,
    described,
    open_store,
)
from hotloop.data.tokenfile import END, Columns, features, head, message
from hotloop.data.turn import Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from hotloop.data.faults import Faults, Policy
    from hotloop.data.portions import Portion, Source
    from hotloop.data.shapes import Text
    from hotloop.data.tokenizer import Vocabulary
    from hotloop.data.turn import Turned

__all__ = ["Engine", "Made", "Order", "prepared", "tokenise"]

Engine = Literal["local", "ray"]  # where portions are turned into tokens

_SAMPLE: Final = 200  # rows that say what shape they have and whether a fast back end is right
_COMPARED: Final = 1 << 20  # characters of them
_MASKS: Final = {"completion": "completion_mask", "assistant": "assistant_masks"}  # TRL's names


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be made of which data."""

    vocabulary: Vocabulary
    out: Path
    packing: Packing = field(default_factory=Packing)
    shape: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    loss: str | None = None
    template: str | None = None  # chatml or tokenizer; None: its own where it has one
    policy: Policy = "stop"
    backend: str = "auto"
    processes: int | None = None  # workers; None: as many as cores, or none where that is faster
    cores: int = 1
    engine: Engine = "local"  # it decides nothing about the result
    address: str | None = None  # of a Ray cluster; None: one of its own
    window: int = WINDOW  # tokens that are packed together, at least
    portion: int = PORTION_BYTES  # of the data that a process turns at a time

    def workers(self, backend: str) -> int:
        """Return how many worker processes there are."""
        if self.processes is not None:
            return self.processes
        # gigatoken has threads of its own, and each process would take 100 MB more.
        return 0 if backend == "gigatoken" and self.engine == "local" else self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of it."""

    folder: Path
    about: Mapping[str, Any]
    is_new: bool  # False: it was there already
    resumed: int = 0  # tokens that were there from an unfinished attempt


def tokenise(
    sources: Sequence[Source],
    order: Order,
    *,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Made:
    """Make the folder of tokens that the order names, or go on with an unfinished one.

    Raises DataError where rows cannot be used (under the policy "stop" it lists them), where the
    folder is there with other contents, and WriteError; UsageError when another process is at it,
    DeviceError when a package or the Ray cluster that the order names is missing.
    """
    if order.engine == "ray":
        must_be_usable(address=order.address, processes=order.processes)
    make_folder(order.out.parent)
    tell(Progress(what="checksums of the data"))
    data = described(sources)
    setup, columns, notes = prepared(sources, order)
    identity = _identity(order, setup, data)
    lock = Lock(order.out.with_name(f".{order.out.name}.lock"))
    lock.acquire()
    try:
        room = order.out.with_name(f".{order.out.name}.unfinished")
        if order.out.exists():
            store = open_store(order.out, wanted=identity)
            if room.exists():
                remove_folder(room)
            return Made(folder=order.out, about=store.about, is_new=False)
        pace = Pace(sources, tell)
        made = _Work(order, setup, columns, identity, room, pace)
        try:
            with closing(made):
                return made.do(sources, notes)
        except DataError:
            if made.is_refused:
                remove_folder(room)
            raise
    finally:
        lock.release()


def prepared(sources: Sequence[Source], order: Order) -> tuple[Setup, Columns, list[str]]:
    """Look at the first rows: how they are read, with what they are turned into tokens, and notes.

    Raises ConfigError or DataError for what the order asks and the rows or this machine have not.
    """
    vocabulary, notes = order.vocabulary, []
    sample = [row for _, row in first_rows(sources[0], _SAMPLE, policy=order.policy)]
    found = layout(sample, shape=order.shape, fields=order.fields, loss=order.loss)
    template = vocabulary.chat(order.template) if found.shape == "chat" else None
    if order.template is not None and template is None:
        raise ConfigError(f"--template is for chat rows, these are of shape {found.shape}")
    if order.packing.tokens is not None and found.shape == "pair":
        raise ConfigError("pairs are not packed: an encoder reads one pair a row; leave --pack out")
    texts: list[Text] = []
    for row in sample:
        try:
            texts += found.texts(row, template)
        except DataError:
            continue  # it is met again, with its place
    backend, why = looked(vocabulary, texts[: _upto(texts)], order.backend)
    if why is not None:
        notes.append(f"tokenised by {backend}: {why}")
    if vocabulary.eos is None and found.shape != "pair":
        notes.append("the tokenizer has no end-of-text token: nothing marks where a text ends")
    is_packed = order.packing.tokens is not None
    if is_packed and {"label", "task"} & set(found.fields):
        notes.append("labels and tasks are left out: a packed row holds several texts")
    setup = Setup(
        vocabulary=vocabulary,
        layout=found,
        template=template,
        backend=backend,
        policy=order.policy,
    )
    columns = Columns(
        is_narrow=vocabulary.is_narrow,
        is_packed=is_packed,
        mask=_MASKS.get(found.loss),
        has_types=setup.has_pairs,
        label=None if is_packed or "label" not in found.fields else found.labels,
        has_task=not is_packed and "task" in found.fields,
    )
    return setup, columns, notes


def _upto(texts: Sequence[Text]) -> int:
    """Return how many texts are compared: so many that nobody waits for it."""
    sizes = accumulate(len(text.text) for text in texts)
    return next((at for at, size in enumerate(sizes, 1) if size > _COMPARED), len(texts))


def _identity(order: Order, setup: Setup, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all that decides what the rows are."""
    template = setup.template
    return {
        "format": FORMAT,
        "tokenizer": order.vocabulary.fingerprint,
        "tokenizer_name": order.vocabulary.name,
        "shape": setup.layout.shape,
        "fields": dict(setup.layout.fields),
        "loss": setup.layout.loss,
        "template": None if template is None else template.fingerprint,
        "length": order.packing.tokens or order.packing.longest,
        "strategy": None if order.packing.tokens is None else order.packing.strategy,
        "bad_rows": order.policy,
        "window": [order.window, order.portion],
        "data": data,
    }


class _Work:
    """One attempt."""

    def __init__(
        self,
        order: Order,
        setup: Setup,
        columns: Columns,
        identity: Mapping[str, Any],
        room: Path,
        pace: Pace,
    ) -> None:
        self._order, self._setup, self._columns = order, setup, columns
        self._identity, self._room, self._pace = identity, room, pace
        self._out = room / "out"
        self._resumed = 0
        self.is_refused = False  # other data or another order are needed: nothing goes on from here
        workers = order.processes if order.address else order.workers(setup.backend)
        self._cluster = Cluster(address=order.address, workers=workers)

    def close(self) -> None:
        """End the workers, where there are any left."""
        self._cluster.close()

    def do(self, sources: Sequence[Source], notes: list[str]) -> Made:
        """Make the splits one after the other, and give the folder its name at the end."""
        self._claim()
        splits = list(dict.fromkeys(source.split for source in sources))
        told = {}
        for split in splits:
            told[split] = self._split(split, [each for each in sources if each.split == split])
        about = {
            "schema": SCHEMA,
            "kind": "tokens",
            "identity": self._identity,
            "vocabulary": {
                "size": self._order.vocabulary.size,
                "eos": self._order.vocabulary.eos,
            },
            "columns": asdict(self._columns),
            "splits": told,
            "notes": notes,
        }
        write_json(self._out / ABOUT, about)
        write_json(self._out / "dataset_dict.json", {"splits": splits})
        finish_folder(self._out, self._order.out)
        remove_folder(self._room)
        return Made(folder=self._order.out, about=about, is_new=True, resumed=self._resumed)

    def _claim(self) -> None:
        """Keep what an earlier attempt at the same left; what is of another goes."""
        record = self._room / "identity.json"
        if self._room.exists():
            was = read_json(record) if record.is_file() else None
            if was != json.loads(json.dumps(self._identity)):
                remove_folder(self._room)
        make_folder(self._out)
        if not record.exists():
            write_json(record, self._identity)

    def _split(self, split: str, sources: Sequence[Source]) -> dict[str, Any]:
        """Write one split; return what about.json says of it."""
        folder = make_folder(self._out / split)
        journal = Journal(self._room / f"{split}.jsonl")
        state = State.last(journal.path)
        self._resumed += state.tokens
        try:
            if not state.is_done:
                self._write(folder, sources, journal, state)
        finally:
            journal.close()
        names = ", ".join(source.name for source in sources[:5])
        self.is_refused = not (state.rows and state.learned)
        if not state.rows:
            faults = state.faults(self._order.policy)
            raise DataError(f"no row of {names} can be used: {faults}{faults.listed}")
        if not state.learned:
            raise DataError(
                f"no token of {names} carries loss: what is learned was cut off (--max-length) or "
                "is not what --loss means"
            )
        for name, value in as_datasets_has_it(features(self._columns)).items():
            write_json(folder / name, value)
        return state.told(self._order.policy)

    def _write(
        self, folder: Path, sources: Sequence[Source], journal: Journal, state: State
    ) -> None:
        with closing(Growing(folder / FILE, state.length)) as file:
            if not state.length:
                file.append(head(self._columns))
            self._fill(file, sources, journal, state)

    def _fill(
        self, file: Growing, sources: Sequence[Source], journal: Journal, state: State
    ) -> None:
        window = Window(columns=self._columns, packing=self._order.packing)
        window.restore(state.carry)
        faults = state.faults(self._order.policy)
        results, at = self._turned(sources, state, faults), state.source
        with closing(results):
            for portion, result in results:
                while str(sources[at].path) != portion.file:
                    at += 1
                state.reach(at)
                state.read += result.rows
                state.documents += len(result.encoded.lengths)
                faults.merge(result.faults)
                window.add(result.encoded, result.words)
                self._pace.count(portion, result)
                if window.tokens >= self._order.window:
                    self._flush(window, file, journal, state, faults, is_last=False)
        self.is_refused = faults.policy == "stop" and faults.count > 0
        faults.raise_if_any()
        state.is_done = True
        self._flush(window, file, journal, state, faults, is_last=True)

    def _turned(
        self, sources: Sequence[Source], state: State, faults: Faults
    ) -> Generator[tuple[Portion, Turned]]:
        """Return what becomes of the portions that are left, with each of them, in order."""
        order, left = self._order, sources[state.source :]
        if order.engine == "ray":
            self._pace.say(f"Ray at {order.address}" if order.address else "starting Ray")
            return self._cluster.turned(left, self._setup, skip=state.portions, size=order.portion)
        every = (each for source in left for each in work(source, size=order.portion))
        return turned(
            islice(every, state.portions, None),
            self._setup,
            processes=order.workers(self._setup.backend),
            only_look=lambda: faults.policy == "stop" and faults.count > 0,
        )

    def _flush(
        self,
        window: Window,
        file: Growing,
        journal: Journal,
        state: State,
        faults: Faults,
        *,
        is_last: bool,
    ) -> None:
        rows, lost = window.take(is_last=is_last)
        if len(rows.lengths):
            file.append(message(self._columns, rows))
        if is_last:
            file.append(END)
        state.note(rows, lost, mask=self._columns.mask)
        state.length, state.carry, state.faulty = file.length, window.carried(), faults.plain()
        journal.append([json.dumps(asdict(state))], sync=True)
