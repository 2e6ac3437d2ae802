"""Prepares rows for a trained task router, and generates its answers.

Dims: B rows, T positions, D features, K tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import torch

from hotloop.core.errors import DataError, did_you_mean
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.records import find_sources, records
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.recipes.building.pretrained import padding_of
from hotloop.recipes.task_router.rows import NONE
from hotloop.recipes.task_router.task_base import Example, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec
    from hotloop.models.task_router import TaskRouter
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.task_router.rows import TaskRows
    from hotloop.recipes.task_router.task_base import Task

__all__ = ["RoutingRequest", "Speaker", "held_out", "read", "speaker"]

_STREAM: Final = 1 << 41  # permutation stream; differs from those of the split and of the sizes
_ROWS: Final = 32  # rows in a batch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutingRequest:
    """Rows to route and answer."""

    examples: tuple[Example, ...]  # without a task: the text alone; for a decoder, its prompt
    task: NDArray[np.int64]  # [rows] number of the task, or NONE where it is unknown

    @property
    def known(self) -> bool:
        """Return whether every row has a task, and so right answers to score against."""
        return bool(len(self.task)) and bool((self.task != NONE).all())


def held_out(data: TaskRows, *, most: int | None, seed: int) -> RoutingRequest:
    """Return a run's validation rows; a task with more than `most` rows is sampled at random."""
    task, selected = data.mixed.task, []
    for number in range(len(data.names)):
        of_task = data.valid.rows[task[data.valid.rows] == number]
        if most is not None and len(of_task) > most:
            of_task = np.sort(of_task[permutation(seed, _STREAM + number, len(of_task))[:most]])
        selected.append(of_task)
    chosen = np.concatenate(selected)
    return RoutingRequest(
        examples=tuple(data.mixed.examples[row] for row in chosen), task=task[chosen]
    )


def read(path: Path, tasks: Sequence[Task], *, is_decoder: bool) -> RoutingRequest:
    """Return the rows of a JSON Lines file or of another table.

    A row with the key `task` is read as a row of that task, with its right answers. Any other row
    has `text` and optionally `question`, or `prompt` for a decoder. Raises DataError with the file
    and line of a row that cannot be used.
    """
    names = [task.name for task in tasks]
    faults, examples, numbers = Faults("stop"), list[Example](), list[int]()
    for place, record in records(find_sources([str(path)], by={}).files, faults):
        try:
            for number, example in _examples(record, tasks, names, is_decoder):
                examples.append(example)
                numbers.append(number)
        except DataError as error:
            faults.add(place, "cannot be asked", str(error))
    faults.raise_if_any({})
    if not examples:
        raise DataError(f"{path} has no row")
    return RoutingRequest(examples=tuple(examples), task=np.array(numbers, np.int64))


def _examples(
    record: Mapping[str, Any], tasks: Sequence[Task], names: Sequence[str], is_decoder: bool
) -> Iterator[tuple[int, Example]]:
    if (name := record.get("task")) is not None:
        if name not in names:
            raise DataError(
                f"no task of this run is called {name!r}{did_you_mean(str(name), names)} (there "
                f"are: {', '.join(names)})"
            )
        number = names.index(name)
        yield from ((number, example) for example in tasks[number].read(record))
        return
    if is_decoder:
        yield NONE, Example(text=text_of(record, "prompt"), answers=())
        return
    question = text_of(record, "question") if record.get("question") is not None else None
    yield NONE, Example(text=text_of(record, "text"), question=question, answers=())


class Speaker(Protocol):
    """A model together with the rows that it answers."""

    def features(self) -> Tensor:
        """Return the frozen model's features of each row, [rows, D]."""
        ...

    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return each row's answer for adapter shares [rows, K] and the task of its head [rows]."""
        ...


def speaker(
    model: TaskRouter,
    request: RoutingRequest,
    tasks: Sequence[Task],
    base_model: FoundModel,
    *,
    labels: Sequence[Sequence[str]],
    longest: int,
    lengths: Sequence[int],
) -> Speaker:
    """Return the speaker for an encoder or a decoder.

    `longest` is the limit of a row in tokens. `lengths` are the tokens of each task's longest
    answer; only a decoder uses them.
    """
    vocabulary, pad = find_tokenizer(base_model.name), padding_of(base_model)
    if base_model.is_decoder:
        return _Writer(model, request, tasks, vocabulary, pad=pad, longest=longest, lengths=lengths)
    return _Reader(model, request, vocabulary, pad=pad, labels=labels, longest=longest)


class _Rows:
    """Rows of tokens of any length, in batches of like length, padded."""

    def __init__(self, model: TaskRouter, ids: Sequence[Sequence[int]], pad: int) -> None:
        self._model, self._ids, self._pad = model, ids, pad
        self._device = next(model.parameters()).device
        self._by_length = np.argsort([len(row) for row in ids], kind="stable")

    def _batches(self, subset: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.int64]]:
        order = self._by_length
        if subset is not None:
            order = order[np.isin(order, subset)]
        for first in range(0, len(order), _ROWS):
            yield order[first : first + _ROWS]

    def _padded(
        self, values: Sequence[Sequence[int]], pad: int, *, pad_left: bool = False
    ) -> Tensor:
        width = max(map(len, values))
        rows = [
            [*[pad] * (width - len(row)), *row] if pad_left else [*row, *[pad] * (width - len(row))]
            for row in values
        ]
        return torch.tensor(rows, device=self._device)

    def _batch(self, rows: NDArray[np.int64], *, pad_left: bool = False) -> dict[str, Tensor]:
        ids = [self._ids[row] for row in rows]
        mask = self._padded([[1] * len(row_ids) for row_ids in ids], 0, pad_left=pad_left)
        return {
            "input_ids": self._padded(ids, self._pad, pad_left=pad_left),
            "attention_mask": mask.bool(),
        }

    @torch.inference_mode()
    def features(self) -> Tensor:
        """Return the frozen model's features of each row, [rows, D]."""
        out = torch.empty(len(self._ids), self._model.features_width)
        for batch in self._batches():
            out[batch] = self._model.features(self._batch(batch)).float().cpu()
        return out


class _Reader(_Rows):
    """An encoder: labels, and spans of the text."""

    def __init__(
        self,
        model: TaskRouter,
        request: RoutingRequest,
        vocabulary: TokenizerSpec,
        *,
        pad: int,
        labels: Sequence[Sequence[str]],
        longest: int,
    ) -> None:
        pairs: list[Any] = [
            row.text if row.question is None else (row.question, row.text)
            for row in request.examples
        ]
        self._encoded = vocabulary.tokenizer().encode_batch(
            pairs
        )  # rows are cut below, at their end
        super().__init__(model, [encoding.ids[:longest] for encoding in self._encoded], pad)
        self._request, self._labels, self._longest = request, labels, longest

    def _batch(self, rows: NDArray[np.int64], *, pad_left: bool = False) -> dict[str, Tensor]:
        types = [self._encoded[row].type_ids[: self._longest] for row in rows]
        return {**super()._batch(rows, pad_left=pad_left), "token_type_ids": self._padded(types, 0)}

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """Return the position of the first token of each text, [rows]."""
        texts = (0 if example.question is None else 1 for example in self._request.examples)
        positions = (
            e.sequence_ids.index(text) for e, text in zip(self._encoded, texts, strict=True)
        )
        return np.array(list(positions), np.int64)

    @torch.inference_mode()
    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the name of each row's label, or the text of its span."""
        texts = [""] * len(head)
        for some in self._batches():
            nothing = torch.full((len(some),), NONE, device=self._device)
            batch = {
                **self._batch(some),
                "task": torch.from_numpy(head[some]).to(self._device),
                "first": torch.from_numpy(self._first[some]).to(self._device),
                **dict.fromkeys(("label", "start", "end"), nothing),
            }
            predicted = self._model.answers(batch, shares[some].to(self._device))
            ends = torch.stack([predicted.label, predicted.start, predicted.end], 1).tolist()
            for row, (label, start, end) in zip(some.tolist(), ends, strict=True):
                labels = self._labels[head[row]]
                texts[row] = labels[label] if labels else self._span(row, start, end)
        return tuple(texts)

    def _span(self, row: int, start: int, end: int) -> str:
        offsets = self._encoded[row].offsets
        while end > start and offsets[end][1] == 0:  # the token after the text
            end -= 1
        return self._request.examples[row].text[offsets[start][0] : offsets[end][1]]


class _Writer(_Rows):
    """A decoder: greedy decoding up to the end token or the longest answer of the task."""

    def __init__(
        self,
        model: TaskRouter,
        request: RoutingRequest,
        tasks: Sequence[Task],
        vocabulary: TokenizerSpec,
        *,
        pad: int,
        longest: int,
        lengths: Sequence[int],
    ) -> None:
        self._tokenizer = vocabulary.tokenizer()
        prompts = [
            example.text if task == NONE else tasks[task].asked(example)
            for example, task in zip(request.examples, request.task.tolist(), strict=True)
        ]
        encoded = self._tokenizer.encode_batch(prompts, add_special_tokens=False)
        before = list(vocabulary.around[0])
        super().__init__(model, [[*before, *encoding.ids][:longest] for encoding in encoded], pad)
        self._lengths, self._end = lengths, vocabulary.eos

    @torch.inference_mode()
    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the generated texts; the longest training answer of a task limits its length."""
        texts = [""] * len(head)
        with self._model.backbone.as_transformers() as whole:
            for task in np.unique(head).tolist():
                for rows in self._batches(np.flatnonzero(head == task)):
                    batch = self._batch(rows, pad_left=True)
                    self._model.shares.give(shares[rows].to(self._device), batch)
                    out = whole.generate(
                        **batch,
                        max_new_tokens=self._lengths[task],
                        do_sample=False,
                        pad_token_id=self._pad,
                        eos_token_id=self._end,
                    )
                    generated = out[:, batch["input_ids"].shape[1] :].tolist()
                    for row, ids in zip(rows.tolist(), generated, strict=True):
                        end = ids.index(self._end) if self._end in ids else len(ids)
                        texts[row] = self._tokenizer.decode(ids[:end]).strip()
        return tuple(texts)
