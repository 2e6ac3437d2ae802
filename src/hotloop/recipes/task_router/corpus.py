"""Finds the tasks of task-router, reads their examples, and merges them into one file.

The cache key of that file is a digest of its sources, declarations and sizes, and of whether an
encoder or a decoder reads it. This module needs no torch.
"""

from __future__ import annotations

import json
import re
import runpy
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError, HotloopError, did_you_mean
from hotloop.core.storage.files import make_folder, write_file
from hotloop.core.storage.manifest import hash_file
from hotloop.core.units import many
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.clean_text import one_line
from hotloop.data.readers.hub_rows import hub_command
from hotloop.data.readers.records import find_sources, head, records
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.train_and_valid import TRAIN, VALID, in_classes, used
from hotloop.data.tokenising.public_sets import public_set, value_at
from hotloop.recipes.building.declared_code import files_of
from hotloop.recipes.task_router import (
    task_code,
    task_questions,
    task_sentiment,
    task_summaries,
    task_translation,
)
from hotloop.recipes.task_router.task_base import Example, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import RecordFile

__all__ = ["BUILT_IN", "Chosen", "Mixed", "chosen_tasks", "known_tasks", "mixed"]

BUILT_IN: Final = {
    module.TASK.name: module.TASK
    for module in (task_sentiment, task_questions, task_summaries, task_code, task_translation)
}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NAME: Final = re.compile(r"[\w-]+")
_VERSION: Final = 3  # raise it when the same files give other rows
_LOOKED: Final = 20  # rows that tell which public set a file is of
_SHOWN: Final = 80  # characters of a sample's prompt, and of its answer
_MOST: Final = 1 << 40  # permutation stream; epochs use the numbers below it


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A task to train, and the location of its rows."""

    task: Task
    declared: Path | None  # the file that declares it; None: a built-in task
    path: Path
    fields: Mapping[str, str]  # part of a row -> key, where it has another name
    size: int | None  # maximum number of rows, drawn at random; None: all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixed:
    """All rows of the chosen tasks, one task after the other."""

    file: Path
    tasks: tuple[Task, ...]
    task: NDArray[np.int64]  # [rows] number of the task
    is_valid: NDArray[np.bool_]  # [rows] whether the row is from a file to validate on
    examples: Sequence[Example]
    notes: tuple[str, ...]

    def held_out(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Return a mask of the validation rows, [rows]: a share of each task, at least one row.

        A task with files to validate on has their rows instead. Raises DataError for a task with
        fewer than two rows.
        """
        is_held_out = np.zeros(len(self.task), np.bool_)
        for number, task in enumerate(self.tasks):
            rows = np.flatnonzero(self.task == number)
            if self.is_valid[rows].any() and not self.is_valid[rows].all():
                is_held_out[rows] = self.is_valid[rows]
                continue
            if len(rows) < 2:
                raise DataError(f"task {task.name} has {many(len(rows), 'row')}: two are needed")
            count = min(len(rows) - 1, max(1, round(share * len(rows))))
            is_held_out[rows[permutation(seed, _MOST + number, len(rows))[:count]]] = True
        return is_held_out


def known_tasks(declared: str | None) -> dict[str, Task]:
    """Return all tasks by name: the built-in ones and those of the user's files.

    `declared` lists the files, separated by commas. Each file is executed. Raises ConfigError for
    a file that is missing, fails or has no `TASK`, and for a name that is invalid or already used.
    """
    tasks = dict(BUILT_IN)
    for file in files_of(declared):
        if not file.is_file():
            raise ConfigError(f"data.declared: there is no file {file}")
        try:
            task = runpy.run_path(str(file)).get("TASK")
        except Exception as error:
            raise ConfigError(
                f"data.declared: {file} fails with {type(error).__name__}: {error}"
            ) from error
        if not isinstance(task, Task):
            raise ConfigError(
                f"data.declared: {file} has no TASK = Task(...), as "
                "hotloop.recipes.task_router.task_sentiment"
            )
        if task.name in tasks or not _NAME.fullmatch(task.name):
            raise ConfigError(
                f"data.declared: {file} calls its task {task.name!r}: another has that name, or it "
                "is not made of letters, digits, - and _"
            )
        tasks[task.name] = task
    return tasks


def _declared_in(declared: str | None, names: Sequence[str]) -> dict[str, Path]:
    own = [name for name in names if name not in BUILT_IN]
    return dict(zip(own, files_of(declared), strict=True))


def chosen_tasks(
    folder: str | None,
    *,
    declared: str | None = None,
    names: Sequence[str],
    files: Mapping[str, str],
    fields: Mapping[str, str] = _NOTHING,
    sizes: Mapping[str, int | None],
) -> list[Chosen]:
    """Return the tasks in `names`, or all tasks that have rows where `names` is empty.

    `files` gives the path of a task's rows, and `fields` the keys that have other names, as
    "text=KEY,label=KEY"; other tasks are looked up below `folder` by their usual file names. Raises
    ConfigError for an unknown task, DataError for a task without rows.
    """
    tasks = known_tasks(declared)
    for name in {*names, *files, *fields, *sizes}:
        if name not in tasks:
            raise ConfigError(
                f"no task is called {name!r}{did_you_mean(name, tasks)} "
                f"(there are: {', '.join(tasks)})"
            )
    chosen, declared_files = [], _declared_in(declared, [*tasks])
    known: dict[Path, str | None] = {}
    for name, task in tasks.items():
        if names and name not in names:
            continue
        path = Path(files[name]) if name in files else _usual(folder, task, known)
        if path is None and not names:
            continue
        if path is None or not path.exists():
            expected_path = path or ", ".join(
                str(Path(folder or ".") / file) for file in task.files
            )
            raise DataError(
                f"task {name} has no rows: there is no {expected_path}; data.files.{name}=FILE"
                f"{_where(task)}"
            )
        chosen.append(
            Chosen(
                task=task,
                declared=declared_files.get(name),
                path=path,
                fields=dict(pair.split("=", 1) for pair in fields.get(name, "").split(",") if pair),
                size=sizes.get(name),
            )
        )
    if not chosen:
        raise DataError(
            f"{folder} has rows of no task; looked for "
            + ", ".join(file for task in tasks.values() for file in task.files[:1])
            + "".join(_where(task) for task in tasks.values())
        )
    return chosen


def _where(task: Task) -> str:
    """Return how rows of a task are fetched from the hub, as the end of a message."""
    return (
        "" if task.hub is None else f"; to fetch rows of {task.name}, run {hub_command(task.hub)}"
    )


def _usual(folder: str | None, task: Task, known: dict[Path, str | None]) -> Path | None:
    """Return where a task's rows are below a folder: by their usual names, or by their keys.

    `known` as for `_set_in`. Raises DataError where several files or folders have rows of its
    public sets.
    """
    if folder is None:
        return None
    named = next((p for file in task.files if (p := Path(folder) / file).exists()), None)
    if named is not None or not task.sets or not Path(folder).is_dir():
        return named
    found = [
        place for place in sorted(Path(folder).iterdir()) if _set_in(place, known) in task.sets
    ]
    if len(found) > 1:
        names = ", ".join(place.name for place in found)
        raise DataError(
            f"{folder} has rows of task {task.name} in {names}: data.files.{task.name}=FILE"
        )
    return found[0] if found else None


def _set_in(place: Path, known: dict[Path, str | None]) -> str | None:
    """Return the name of the public set that a file or folder has rows of; keep it in `known`."""
    if place not in known:
        known[place] = None
        with suppress(HotloopError):  # it holds no rows
            rows = head(find_sources([str(place)], by={}).files[0], _LOOKED)
            sets = (public_set(row) for _, row in rows)
            known[place] = next((of_set.name for of_set in sets if of_set is not None), None)
    return known[place]


def mixed(chosen: Sequence[Chosen], *, cache: Path, is_decoder: bool, seed: int) -> Mixed:
    """Return the rows of all chosen tasks, cached as one JSON Lines file.

    Raises DataError with the file and line of each row that cannot be used, and for a text task
    with an encoder.
    """
    if texts := [
        choice.task.name for choice in chosen if choice.task.kind == "text" and not is_decoder
    ]:
        raise DataError(
            f"an encoder writes no text, which {', '.join(texts)} asks for: take a decoder as "
            "model.name, or name the tasks with data.tasks"
        )
    files = [_files_of(choice) for choice in chosen]
    key = _key(chosen, files, is_decoder=is_decoder, seed=seed)
    file = cache / "tasks" / key / "rows.jsonl"
    if not file.is_file():
        lines = [
            json.dumps(
                _line(choice.task, number, example, is_decoder) | {"is_valid": is_valid},
                ensure_ascii=False,
            )
            for number, (choice, (of_task, _)) in enumerate(zip(chosen, files, strict=True))
            for example, is_valid in _examples(choice, of_task, seed)
        ]
        make_folder(file.parent)
        write_file(file, "".join(f"{line}\n" for line in lines))
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    task = np.array([row["number"] for row in kept], np.int64)
    counts = np.bincount(task, minlength=len(chosen)).tolist()
    counts_text = ", ".join(f"{c.task.name} {n:,}" for c, n in zip(chosen, counts, strict=True))
    return Mixed(
        file=file,
        tasks=tuple(choice.task for choice in chosen),
        task=task,
        is_valid=np.array([row["is_valid"] for row in kept], np.bool_),
        examples=[_example(row["example"]) for row in kept],
        notes=(
            f"rows of tasks: {counts_text}",
            *(
                f"{choice.task.name}: {note}"
                for choice, (_, of_task) in zip(chosen, files, strict=True)
                for note in of_task
            ),
            *_samples(kept, chosen),
        ),
    )


def _key(
    chosen: Sequence[Chosen],
    files: Sequence[tuple[Sequence[RecordFile], object]],
    *,
    is_decoder: bool,
    seed: int,
) -> str:
    """Return a digest of everything that decides the rows of the chosen tasks."""
    sources = [
        [
            choice.task.name,
            choice.task.prompt,
            choice.size,
            dict(choice.fields),
            None if choice.declared is None else hash_file(choice.declared),
            [
                [
                    *(source.split, source.member, source.folder, source.format),
                    *(each for path in source.paths for each in (path.suffix, hash_file(path))),
                ]
                for source in of_task
            ],
        ]
        for choice, (of_task, _) in zip(chosen, files, strict=True)
    ]
    return digest(json.dumps([_VERSION, is_decoder, seed, sources], sort_keys=True))


def _samples(kept: Sequence[Mapping[str, Any]], chosen: Sequence[Chosen]) -> Iterator[str]:
    """Yield a sentence on the first row of each task, with marks around the right answer."""
    for number, choice in enumerate(chosen):
        first = next(_example(row["example"]) for row in kept if row["number"] == number)
        asked = one_line(choice.task.asked(first))
        asked = asked if len(asked) <= _SHOWN else f"…{asked[-_SHOWN:]}"
        yield f"sample of {choice.task.name}: {asked}«{one_line(first.answers[0])[:_SHOWN]}»"


def _files_of(chosen: Chosen) -> tuple[list[RecordFile], tuple[str, ...]]:
    """Return a task's files with the split that each is used for, and notes on those left out."""
    sources = find_sources([str(chosen.path)], by={})
    files, notes = in_classes(sources.files)
    of_splits, more = used(files, (), is_one=False)
    return of_splits, (*sources.notes, *notes, *more)


def _examples(chosen: Chosen, files: Sequence[RecordFile], seed: int) -> list[tuple[Example, bool]]:
    """Return the examples of a task's files, each with whether it is to be validated on.

    `size` of them for each purpose, drawn from all, where there are more.
    """
    by_split: dict[str, list[Example]] = {}
    faults = Faults("stop")
    for split in dict.fromkeys(file.split for file in files):
        examples = by_split.setdefault(split, [])
        for place, record in records([file for file in files if file.split == split], faults):
            try:
                named = {part: value_at(record, key) for part, key in chosen.fields.items()}
                examples += chosen.task.read({**record, **named})
            except DataError as error:
                faults.add(place, "unfit for the task", f"task {chosen.task.name}: {error}")
    if faults.count and not any(by_split.values()):
        name = chosen.task.name
        raise DataError(
            f"no row fits task {name}: {faults}{faults.listed}; other keys are named by "
            f"data.fields.{name}=text=KEY,label=KEY"
        )
    faults.raise_if_any({})
    if not by_split.get(TRAIN):
        raise DataError(f"{chosen.path} has no example of task {chosen.task.name}")
    drawn: list[tuple[Example, bool]] = []
    for split, examples in by_split.items():
        keep = np.arange(len(examples))
        if chosen.size is not None and chosen.size < len(examples):
            keep = np.sort(permutation(seed, _MOST, len(examples))[: chosen.size])
        drawn += [(examples[number], split == VALID) for number in keep]
    return drawn


def _line(task: Task, number: int, example: Example, is_decoder: bool) -> dict[str, Any]:
    """Return a row with the fields that the tokeniser reads, and the example itself."""
    fields = {"text": example.text, "question": example.question, "answers": list(example.answers)}
    example_record = {"number": number, "example": {**fields, "start": example.start}}
    if is_decoder:
        return {"prompt": task.asked(example), "response": example.answers[0], **example_record}
    if example.question is None:
        return {"text_a": example.text, "text_b": None, **example_record}
    return {"text_a": example.question, "text_b": example.text, **example_record}


def _example(row: Mapping[str, Any]) -> Example:
    return Example(
        text=row["text"],
        question=row["question"],
        answers=tuple(row["answers"]),
        start=row["start"],
    )
