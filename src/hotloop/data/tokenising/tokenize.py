"""Tokenise files once: read, shape, encode, pack and write, in bounded memory, on all cores.

Each window is synced to the disk, with a journal that records how far the data were read: after a
kill, the same command continues from there, and the result is the same byte for byte, for any
number of processes and of kills.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError
from hotloop.core.storage.files import (
    finish_folder,
    make_folder,
    read_json,
    remove_folder,
    write_json,
)
from hotloop.core.storage.journal import Growing, Journal
from hotloop.core.storage.lock import Lock
from hotloop.data.readers.advised_options import said
from hotloop.data.readers.records import work
from hotloop.data.tokenising.arrow_file import END, features, head, message
from hotloop.data.tokenising.journal import State
from hotloop.data.tokenising.plan import by_position, wanted
from hotloop.data.tokenising.progress import PortionCounter, TokenizeProgress
from hotloop.data.tokenising.ray_pool import Cluster, must_be_usable
from hotloop.data.tokenising.rows import TextWindow
from hotloop.data.tokenising.token_store import ABOUT, FILE, SCHEMA, as_datasets_has_it, open_store
from hotloop.data.tokenising.worker_pool import turned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.storage.lock import LockHolder
    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Portion, RecordFile
    from hotloop.data.tokenising.plan import TokenizeRequest, TokenizeSpec
    from hotloop.data.tokenising.tokenize_portion import Turned

__all__ = ["Made", "tokenise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The result of `tokenise`."""

    folder: Path
    about: Mapping[str, Any]
    is_new: bool  # False: the folder existed already
    resumed: int = 0  # tokens of an unfinished attempt that were used


def tokenise(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    spec: TokenizeSpec | None = None,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> Made:
    """Make the token folder that the order names, or continue an unfinished one.

    `spec` is the result of `wanted` for both, if it is known. Raises DataError if rows cannot be
    used (under the policy "stop" it lists them) or the folder exists with other contents, and
    WriteError; DeviceError if a package or the Ray cluster that the order names is missing. Waits
    for another process of this machine that is making the same folder; UsageError if it is one of
    another machine.
    """
    if order.engine == "ray":
        must_be_usable(address=order.address, processes=order.processes)
    make_folder(order.out.parent)
    sources = by_position(sources, order.fields)
    spec = spec or wanted(sources, order, notify=notify)
    lock = Lock(order.out.with_name(f".{order.out.name}.lock"))

    def waits(holder: LockHolder) -> None:
        notify(TokenizeProgress(what=f"waits for process {holder.pid}, which makes these tokens"))

    lock.wait(waits)
    try:
        room = order.out.with_name(f".{order.out.name}.unfinished")
        if order.out.exists():
            store = open_store(order.out, wanted=spec.identity)
            if room.exists():
                remove_folder(room)
            return Made(folder=order.out, about=store.about, is_new=False)
        attempt = _Work(order, spec, room, PortionCounter(sources, notify))
        try:
            with closing(attempt):
                return attempt.do(sources)
        except DataError:
            if attempt.is_refused:
                remove_folder(room)
            raise
    finally:
        lock.release()


class _Work:
    """One attempt to make a token folder."""

    def __init__(
        self, order: TokenizeRequest, spec: TokenizeSpec, room: Path, pace: PortionCounter
    ) -> None:
        begun = spec.prepared.decided(order.backend)
        self._order, self._setup, self._columns = order, begun.setup, begun.columns
        self._notes, self._identity = begun.notes, spec.identity
        self._room, self._pace = room, pace
        self._out = room / "out"
        self._resumed = 0
        self.is_refused = False  # other data or another order are needed: the attempt is useless
        workers = order.processes if order.address else order.workers(self._setup.backend)
        self._cluster = Cluster(address=order.address, workers=workers)

    def close(self) -> None:
        """End the remaining workers."""
        self._cluster.close()

    def do(self, sources: Sequence[RecordFile]) -> Made:
        """Make the splits one after the other, and give the folder its name at the end."""
        self._claim()
        splits = list(dict.fromkeys(source.split for source in sources))
        about_splits = {}
        for split in splits:
            about_splits[split] = self._split(
                split, [file for file in sources if file.split == split]
            )
        about = {
            "schema": SCHEMA,
            "kind": "tokens",
            "identity": self._identity,
            "vocabulary": {
                "size": self._order.vocabulary.size,
                "eos": self._order.vocabulary.eos,
            },
            "columns": asdict(self._columns),
            "splits": about_splits,
            "notes": list(self._notes),
        }
        write_json(self._out / ABOUT, about)
        write_json(self._out / "dataset_dict.json", {"splits": splits})
        finish_folder(self._out, self._order.out)
        remove_folder(self._room)
        return Made(folder=self._order.out, about=about, is_new=True, resumed=self._resumed)

    def _claim(self) -> None:
        """Keep what an earlier attempt at the same order left; remove that of another order."""
        record = self._room / "identity.json"
        if self._room.exists():
            was = read_json(record) if record.is_file() else None
            if was != json.loads(json.dumps(self._identity)):
                remove_folder(self._room)
        make_folder(self._out)
        if not record.exists():
            write_json(record, self._identity)

    def _split(self, split: str, sources: Sequence[RecordFile]) -> dict[str, Any]:
        """Write one split; return its entry in about.json."""
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
                f"no token of {names} carries loss: what is learned was cut off"
                f"{_in_brackets('--max-length', self._order)}, or other parts of a row are to "
                f"carry loss{_in_brackets('--loss', self._order)}"
            )
        for name, value in as_datasets_has_it(features(self._columns)).items():
            write_json(folder / name, value)
        return state.about(self._order.policy)

    def _write(
        self, folder: Path, sources: Sequence[RecordFile], journal: Journal, state: State
    ) -> None:
        with closing(Growing(folder / FILE, state.length)) as file:
            if not state.length:
                file.append(head(self._columns))
            self._fill(file, sources, journal, state)

    def _fill(
        self, file: Growing, sources: Sequence[RecordFile], journal: Journal, state: State
    ) -> None:
        window = TextWindow(columns=self._columns, packing=self._order.packing)
        window.restore(state.carry)
        faults = state.faults(self._order.policy)
        results, index = self._turned(sources, state, faults), state.source
        with closing(results):
            for portion, result in results:
                while sources[index].name != portion.name:
                    index += 1
                state.reach(index)
                state.read += result.rows
                state.documents += len(result.encoded.lengths)
                faults.merge(result.faults)
                window.add(result.encoded, result.words)
                self._pace.count(portion, result)
                if window.tokens >= self._order.window:
                    self._flush(window, file, journal, state, faults, is_last=False)
        self.is_refused = faults.policy == "stop" and faults.count > 0
        faults.raise_if_any(self._order.said)
        state.is_done = True
        self._flush(window, file, journal, state, faults, is_last=True)

    def _turned(
        self, sources: Sequence[RecordFile], state: State, faults: Faults
    ) -> Generator[tuple[Portion, Turned]]:
        """Yield the remaining portions with their results, in order."""
        order, remaining = self._order, sources[state.source :]
        if order.engine == "ray":
            self._pace.say(f"Ray at {order.address}" if order.address else "starting Ray")
            return self._cluster.turned(
                remaining, self._setup, skip=state.portions, size=order.portion
            )
        every = (portion for source in remaining for portion in work(source, size=order.portion))
        return turned(
            islice(every, state.portions, None),
            self._setup,
            processes=order.workers(self._setup.backend),
            only_look=lambda: faults.policy == "stop" and faults.count > 0,
        )

    def _flush(
        self,
        window: TextWindow,
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


def _in_brackets(option: str, order: TokenizeRequest) -> str:
    word = said(option, order.said)
    return "" if word is None else f" ({word})"
