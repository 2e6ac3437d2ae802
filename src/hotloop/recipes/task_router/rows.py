"""Turns the rows of task-router into tokens, with the target of each row's head."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.units import many
from hotloop.data.readers.records import find_sources
from hotloop.data.sampling.mapped_rows import RowMap
from hotloop.data.sampling.text_rows import answered
from hotloop.data.sampling.train_and_valid import Part, made_of
from hotloop.data.tokenising.open_or_make import own
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.progress import told
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.token_store import FILE
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.pretrained import refuse_longer
from hotloop.recipes.task_router.config import sizes_of, task_names
from hotloop.recipes.task_router.corpus import chosen_tasks, mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.tokenising.token_store import Store
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.task_router.config import TaskRouterConfig
    from hotloop.recipes.task_router.corpus import Mixed
    from hotloop.recipes.task_router.feature_cache import Features

__all__ = ["TaskRows", "prepare_rows"]

NONE: Final = -1  # a row without a label, without a span, or without a known task


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskRows:
    """The training and validation rows of a task router."""

    store: Store
    mixed: Mixed
    labels: tuple[tuple[str, ...], ...]  # of each task, sorted; empty for a task without labels
    train: Part  # with the columns task and, for an encoder, label, start, end and first
    valid: Part
    features: Features | None = None  # of the frozen model; None: the phase needs none
    lengths: tuple[int, ...]  # tokens of each task's longest answer; empty for an encoder
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tasks, in order."""
        return tuple(task.name for task in self.mixed.tasks)

    @property
    def fingerprint(self) -> str:
        """Return a digest of the rows, their tokens, targets and split, and of the features."""
        rows = (part.rows.tobytes() for part in (self.train, self.valid))
        columns = (column.tobytes() for _, column in sorted(self.train.columns.items()))
        identity = json.dumps([*made_of(self.store), self.names, self.labels], sort_keys=True)
        features = [] if self.features is None else [self.features.fingerprint]
        return digest(identity, *features, *rows, *columns)

    @property
    def about(self) -> Mapping[str, Any]:
        """Return the entry of the data in run.json."""
        return {
            "fingerprint": self.fingerprint,
            "tokens": str(self.store.folder),
            "tasks": list(self.names),
            "rows": {"train": len(self.train.rows), "valid": len(self.valid.rows)},
        }


def prepare_rows(
    config: TaskRouterConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> TaskRows:
    """Return the tokenised rows of the chosen tasks; tokens come from the cache where they exist.

    Raises DataError with the file and line of a row that cannot be used.
    """
    data, base_model = config.data, find_model(str(config.model.name))
    refuse_longer(data.max_length, base_model)
    chosen = chosen_tasks(
        data.path,
        declared=data.declared,
        names=task_names(config),
        files=data.files,
        fields=data.fields,
        sizes=sizes_of(config),
    )
    rows = mixed(chosen, cache=cache, is_decoder=base_model.is_decoder, seed=config.seed)
    _, store = own(
        find_sources([str(rows.file)], by={}).files,
        order_of(config, base_model),
        cache=cache,
        notify=told(progress, poll),
    )
    split = next(iter(store.splits))
    columns: dict[str, NDArray[np.int64]] = {"task": rows.task}
    labels: tuple[tuple[str, ...], ...] = ((),) * len(rows.tasks)
    lengths: tuple[int, ...] = ()
    if base_model.is_decoder:
        answers = answered(RowMap(store.folder / split / FILE))
        usable = answers > 0
        lengths = tuple(int(answers[rows.task == n].max()) for n in range(len(rows.tasks)))
    else:
        labels = _labels(rows)
        columns |= _columns(rows, labels, store, base_model)
        usable = (columns["label"] >= 0) | (columns["start"] >= 0)
    lost_count = int((~usable).sum())
    notes = rows.notes
    if lost_count:
        notes += (
            f"{many(lost_count, 'row')} whose answer does not fit into data.max_length: left out",
        )
    held_out = rows.held_out(data.validation_share, config.seed)
    train_and_valid = [
        Part(split=split, rows=np.flatnonzero(usable & is_in_part), columns=columns)
        for is_in_part in (~held_out, held_out)
    ]
    return TaskRows(
        store=store,
        mixed=rows,
        labels=labels,
        train=train_and_valid[0],
        valid=train_and_valid[1],
        lengths=lengths,
        notes=notes,
    )


def order_of(config: TaskRouterConfig, base_model: FoundModel) -> TokenizeRequest:
    """Return the tokenizing request for the configuration and the model's tokenizer."""
    order = TokenizeRequest(
        vocabulary=find_tokenizer(base_model.name),
        out=Path(),  # unused: the cache names the folder by its contents
        packing=Packing(longest=config.data.max_length),
        said={"--max-length": "data.max_length"},
    )
    if base_model.is_decoder:
        return replace(order, shape="prompt", fields={"prompt": "prompt", "response": "response"})
    return replace(order, shape="pair", fields={"text_a": "text_a", "text_b": "text_b"})


def _labels(rows: Mixed) -> tuple[tuple[str, ...], ...]:
    labels: list[set[str]] = [set() for _ in rows.tasks]
    for number, example in zip(rows.task.tolist(), rows.examples, strict=True):
        if rows.tasks[number].kind == "label":
            labels[number].add(example.answers[0])
    if single := [t.name for t, names in zip(rows.tasks, labels, strict=True) if len(names) == 1]:
        raise DataError(f"all rows of {', '.join(single)} have one label: nothing can be learned")
    return tuple(tuple(sorted(names)) for names in labels)


def _columns(
    rows: Mixed, labels: Sequence[Sequence[str]], store: Store, base_model: FoundModel
) -> dict[str, NDArray[np.int64]]:
    """Return label, start, end and first, each [rows], with NONE where a span was cut off."""
    count = len(rows.examples)
    columns = {n: np.full(count, NONE, np.int64) for n in ("label", "start", "end", "first")}
    numbers = [{name: number_of for number_of, name in enumerate(names)} for names in labels]
    for row, (number, example) in enumerate(zip(rows.task.tolist(), rows.examples, strict=True)):
        if rows.tasks[number].kind == "label":
            columns["label"][row] = numbers[number][example.answers[0]]
    spans = [row for row, e in enumerate(rows.examples) if e.start is not None]
    if spans:
        for name, values in _spans(rows, spans, store, base_model).items():
            columns[name][spans] = values
    return columns


def _spans(
    rows: Mixed, spans: Sequence[int], store: Store, base_model: FoundModel
) -> dict[str, NDArray[np.int64]]:
    """Return, for rows with a span, the first token of the text and the answer's first and last.

    The positions come from the tokenizer's offsets. Raises DataError where its tokens differ from
    those in the file, which is checked for each row.
    """
    vocabulary = find_tokenizer(base_model.name)
    if not vocabulary.parts_pairs:
        raise DataError(
            f"the tokenizer of {base_model.name} puts nothing between a question and its text: "
            "take another model, or leave out tasks with spans (data.tasks)"
        )
    file = RowMap(store.folder / next(iter(store.splits)) / FILE)
    examples = [rows.examples[row] for row in spans]
    encoded = vocabulary.tokenizer().encode_batch([(e.question or "", e.text) for e in examples])
    locations = file.locate(np.array(spans, np.int64))
    begins, counts = file.spans("input_ids", locations)
    ids = file.view("input_ids")
    columns = {n: np.full(len(spans), NONE, np.int64) for n in ("start", "end", "first")}
    for position, (example, tokens) in enumerate(zip(examples, encoded, strict=True)):
        stored_ids = ids[begins[position] : begins[position] + counts[position]].tolist()
        if tokens.ids[: len(stored_ids)] != stored_ids:
            raise DataError(
                f"the tokenizer of {base_model.name} gives other tokens than those of "
                f"{store.folder}: remove that folder, it is made anew"
            )
        assert example.start is not None
        end = example.start + len(example.answers[0])
        inside = [
            token
            for token, (sequence, (begin, stop)) in enumerate(
                zip(tokens.sequence_ids, tokens.offsets, strict=True)
            )
            if sequence == 1 and begin < end and stop > example.start and stop > begin
        ]
        # The end of a text takes a token too: an answer that reaches it was cut.
        if inside and inside[-1] < len(stored_ids) - 1:
            columns["start"][position], columns["end"][position] = inside[0], inside[-1]
            columns["first"][position] = tokens.sequence_ids.index(1)
    return columns
