"""What a task router is asked: rows of a file, or those held out, as its model reads them.

Dims: B rows, T positions, D features, K tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import torch
from tokenizers import Tokenizer

from hotloop.core.errors import DataError, did_you_mean
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.records import find_sources, rows, work
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

_STREAM: Final = 1 << 41  # of permutations: another than what is held out, or left out
_ROWS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutingRequest:
    """Rows that are to be routed and answered."""

    examples: tuple[Example, ...]  # without a task: the text alone, which is the prompt of decoders
    task: NDArray[np.int64]  # [rows] number of the task where that is known, else NONE

    @property
    def known(self) -> bool:
        """Whether there is something to score: the task and right answers of every row."""
        return bool(len(self.task)) and bool((self.task != NONE).all())


def held_out(data: TaskRows, *, most: int | None, seed: int) -> RoutingRequest:
    """Return the validation rows of a run, of each task `most` at most, drawn evenly."""
    task, kept = data.mixed.task, []
    for number in range(len(data.names)):
        own = data.valid.rows[task[data.valid.rows] == number]
        if most is not None and len(own) > most:
            own = np.sort(own[permutation(seed, _STREAM + number, len(own))[:most]])
        kept.append(own)
    chosen = np.concatenate(kept)
    return RoutingRequest(
        examples=tuple(data.mixed.examples[row] for row in chosen), task=task[chosen]
    )


def read(path: Path, tasks: Sequence[Task], *, is_decoder: bool) -> RoutingRequest:
    """Return the rows of a file of JSON lines, or another table.

    A row with the key task is read as rows of that task are, and has its right answers. Another
    has text, and question if it has one; for a decoder prompt. Raises DataError with the place of
    what cannot be used.
    """
    names = [each.name for each in tasks]
    faults, examples, numbers = Faults("stop"), list[Example](), list[int]()
    for source in find_sources([str(path)], by={}).files:
        for portion in work(source):
            for place, record in rows(portion, faults):
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
    """A model with the rows that it is asked."""

    def features(self) -> Tensor:
        """Return what the frozen model makes of each row, [rows, D]."""
        ...

    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the answers where rows take these shares [rows, K], said by these tasks' heads."""
        ...


def speaker(
    model: TaskRouter,
    asked: RoutingRequest,
    tasks: Sequence[Task],
    found: FoundModel,
    *,
    labels: Sequence[Sequence[str]],
    longest: int,
    lengths: Sequence[int],
) -> Speaker:
    """Return what answers; `lengths` are the tokens of each task's longest answer, of a decoder."""
    vocabulary, pad = find_tokenizer(found.name), padding_of(found)
    if found.is_decoder:
        return _Writer(model, asked, tasks, vocabulary, pad=pad, longest=longest, lengths=lengths)
    return _Reader(model, asked, vocabulary, pad=pad, labels=labels, longest=longest)


class _Rows:
    """Rows of tokens of any length, in batches of like length, padded."""

    def __init__(self, model: TaskRouter, ids: Sequence[Sequence[int]], pad: int) -> None:
        self._model, self._ids, self._pad = model, ids, pad
        self._device = next(model.parameters()).device
        self._by_length = np.argsort([len(each) for each in ids], kind="stable")

    def _batches(self, some: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.int64]]:
        order = self._by_length
        if some is not None:
            order = order[np.isin(order, some)]
        for first in range(0, len(order), _ROWS):
            yield order[first : first + _ROWS]

    def _padded(self, values: Sequence[Sequence[int]], pad: int, *, left: bool = False) -> Tensor:
        width = max(map(len, values))
        rows = [
            [*[pad] * (width - len(each)), *each] if left else [*each, *[pad] * (width - len(each))]
            for each in values
        ]
        return torch.tensor(rows, device=self._device)

    def _batch(self, at: NDArray[np.int64], *, left: bool = False) -> dict[str, Tensor]:
        ids = [self._ids[row] for row in at]
        seen = self._padded([[1] * len(each) for each in ids], 0, left=left)
        return {
            "input_ids": self._padded(ids, self._pad, left=left),
            "attention_mask": seen.bool(),
        }

    @torch.inference_mode()
    def features(self) -> Tensor:
        """Return what the frozen model makes of each row, [rows, D]."""
        out = torch.empty(len(self._ids), self._model.features_width)
        for at in self._batches():
            out[at] = self._model.features(self._batch(at)).float().cpu()
        return out


class _Reader(_Rows):
    """An encoder: labels, and spans of the text."""

    def __init__(
        self,
        model: TaskRouter,
        asked: RoutingRequest,
        vocabulary: TokenizerSpec,
        *,
        pad: int,
        labels: Sequence[Sequence[str]],
        longest: int,
    ) -> None:
        made = Tokenizer.from_str(vocabulary.source)
        made.no_padding()
        made.no_truncation()  # rows are cut at their end, as those that were learned
        pairs: list[Any] = [
            each.text if each.question is None else (each.question, each.text)
            for each in asked.examples
        ]
        self._encoded = made.encode_batch(pairs)
        super().__init__(model, [each.ids[:longest] for each in self._encoded], pad)
        self._asked, self._labels, self._longest = asked, labels, longest

    def _batch(self, at: NDArray[np.int64], *, left: bool = False) -> dict[str, Tensor]:
        types = [self._encoded[row].type_ids[: self._longest] for row in at]
        return {**super()._batch(at, left=left), "token_type_ids": self._padded(types, 0)}

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """Return the token each text begins with, [rows]."""
        texts = (0 if each.question is None else 1 for each in self._asked.examples)
        found = (e.sequence_ids.index(text) for e, text in zip(self._encoded, texts, strict=True))
        return np.array(list(found), np.int64)

    @torch.inference_mode()
    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return labels' names and spans' texts."""
        texts = [""] * len(head)
        for at in self._batches():
            nothing = torch.full((len(at),), NONE, device=self._device)
            batch = {
                **self._batch(at),
                "task": torch.from_numpy(head[at]).to(self._device),
                "first": torch.from_numpy(self._first[at]).to(self._device),
                **dict.fromkeys(("label", "start", "end"), nothing),
            }
            said = self._model.answers(batch, shares[at].to(self._device))
            ends = torch.stack([said.label, said.start, said.end], 1).tolist()
            for row, (label, start, end) in zip(at.tolist(), ends, strict=True):
                own = self._labels[head[row]]
                texts[row] = own[label] if own else self._span(row, start, end)
        return tuple(texts)

    def _span(self, row: int, start: int, end: int) -> str:
        offsets = self._encoded[row].offsets
        while end > start and offsets[end][1] == 0:  # the token after the text
            end -= 1
        return self._asked.examples[row].text[offsets[start][0] : offsets[end][1]]


class _Writer(_Rows):
    """A decoder: it writes the likeliest tokens until it ends, or as long as it ever learned to."""

    def __init__(
        self,
        model: TaskRouter,
        asked: RoutingRequest,
        tasks: Sequence[Task],
        vocabulary: TokenizerSpec,
        *,
        pad: int,
        longest: int,
        lengths: Sequence[int],
    ) -> None:
        self._tokenizer = Tokenizer.from_str(vocabulary.source)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        prompts = [
            example.text if task == NONE else tasks[task].asked(example)
            for example, task in zip(asked.examples, asked.task.tolist(), strict=True)
        ]
        encoded = self._tokenizer.encode_batch(prompts, add_special_tokens=False)
        before = list(vocabulary.around[0])
        super().__init__(model, [[*before, *each.ids][:longest] for each in encoded], pad)
        self._lengths, self._end = lengths, vocabulary.eos

    @torch.inference_mode()
    def answers(self, shares: Tensor, head: NDArray[np.int64]) -> tuple[str, ...]:
        """Return what is written; an answer is as long as the longest of its task at most."""
        texts = [""] * len(head)
        with self._model.backbone.as_transformers() as whole:
            for task in np.unique(head).tolist():
                for at in self._batches(np.flatnonzero(head == task)):
                    batch = self._batch(at, left=True)
                    self._model.shares.give(shares[at].to(self._device), batch)
                    out = whole.generate(
                        **batch,
                        max_new_tokens=self._lengths[task],
                        do_sample=False,
                        pad_token_id=self._pad,
                        eos_token_id=self._end,
                    )
                    new = out[:, batch["input_ids"].shape[1] :].tolist()
                    for row, ids in zip(at.tolist(), new, strict=True):
                        end = ids.index(self._end) if self._end in ids else len(ids)
                        texts[row] = self._tokenizer.decode(ids[:end]).strip()
        return tuple(texts)
