"""The rows of task-router: which tasks there are, their examples, and all of them as one file.

The file is kept in the cache by what it was made of: sources, declarations, sizes, and whether an
encoder or a decoder reads it. Needs no torch.
"""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError, did_you_mean
from hotloop.core.storage.files import make_folder, write_file
from hotloop.core.storage.manifest import hash_file
from hotloop.core.units import many
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.records import find_sources, rows, work
from hotloop.data.sampling.epoch_order import permutation
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
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["BUILT_IN", "Chosen", "Mixed", "chosen_tasks", "known_tasks", "mixed"]

BUILT_IN: Final = {
    each.TASK.name: each.TASK
    for each in (task_sentiment, task_questions, task_summaries, task_code, task_translation)
}
_NAME: Final = re.compile(r"[\w-]+")
_VERSION: Final = 2  # raise it when the same files give other rows
_MOST: Final = 1 << 40  # no run trains so many epochs: a stream of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A task that is trained, and where its rows are."""

    task: Task
    declared: Path | None  # the file it is declared in; None: it is one of ours
    path: Path
    size: int | None  # rows of it at most, drawn evenly; None: all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixed:
    """All rows of the chosen tasks, one task after the other."""

    file: Path
    tasks: tuple[Task, ...]
    task: NDArray[np.int64]  # [rows] number of the task
    examples: Sequence[Example]
    notes: tuple[str, ...]

    def held_out(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Return which rows are validated on, [rows]: a share of each task, one row at least."""
        held = np.zeros(len(self.task), np.bool_)
        for number, task in enumerate(self.tasks):
            own = np.flatnonzero(self.task == number)
            if len(own) < 2:
                raise DataError(f"task {task.name} has {many(len(own), 'row')}: two are needed")
            count = min(len(own) - 1, max(1, round(share * len(own))))
            held[own[permutation(seed, _MOST + number, len(own))[:count]]] = True
        return held


def known_tasks(declared: str | None) -> dict[str, Task]:
    """Return all tasks by name: ours, and those of files of the user's, with commas between.

    Those files are run. Raises ConfigError for a file that is not there or fails, that has no
    `TASK`, or one with the name of another.
    """
    found = dict(BUILT_IN)
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
        if task.name in found or not _NAME.fullmatch(task.name):
            raise ConfigError(
                f"data.declared: {file} calls its task {task.name!r}: another has that name, or it "
                "is not made of letters, digits, - and _"
            )
        found[task.name] = task
    return found


def _declared_in(declared: str | None, names: Sequence[str]) -> dict[str, Path]:
    own = [name for name in names if name not in BUILT_IN]
    return dict(zip(own, files_of(declared), strict=True))


def chosen_tasks(
    folder: str | None,
    *,
    declared: str | None = None,
    names: Sequence[str],
    files: Mapping[str, str],
    sizes: Mapping[str, int | None],
) -> list[Chosen]:
    """Return the tasks that are asked for: `names`, or without any all that have rows.

    `files` says where a task's rows are; else they are looked for below `folder` by the usual
    names. Raises ConfigError for a task that is unknown, DataError for one without rows.
    """
    known = known_tasks(declared)
    for name in {*names, *files, *sizes}:
        if name not in known:
            raise ConfigError(
                f"no task is called {name!r}{did_you_mean(name, known)} "
                f"(there are: {', '.join(known)})"
            )
    found, where = [], _declared_in(declared, [*known])
    for name, task in known.items():
        if names and name not in names:
            continue
        path = Path(files[name]) if name in files else _usual(folder, task)
        if path is None and not names:
            continue
        if path is None or not path.exists():
            looked = path or ", ".join(str(Path(folder or ".") / each) for each in task.files)
            raise DataError(
                f"task {name} has no rows: there is no {looked}; data.files.{name}=FILE"
            )
        found.append(Chosen(task=task, declared=where.get(name), path=path, size=sizes.get(name)))
    if not found:
        raise DataError(
            f"{folder} has rows of no task; looked for "
            + ", ".join(file for task in known.values() for file in task.files[:1])
        )
    return found


def _usual(folder: str | None, task: Task) -> Path | None:
    places = [Path(folder) / file for file in task.files] if folder is not None else []
    return next((place for place in places if place.exists()), None)


def mixed(chosen: Sequence[Chosen], *, cache: Path, is_decoder: bool, seed: int) -> Mixed:
    """Return the rows of all chosen tasks, read once and kept as one file of JSON lines.

    Raises DataError with the place of each row that cannot be used, and for a task that an encoder
    cannot answer.
    """
    if texts := [each.task.name for each in chosen if each.task.kind == "text" and not is_decoder]:
        raise DataError(
            f"an encoder writes no text, which {', '.join(texts)} asks for: take a decoder as "
            "model.name, or name the tasks with data.tasks"
        )
    made_of = [
        [
            each.task.name,
            each.task.prompt,
            each.size,
            None if each.declared is None else hash_file(each.declared),
            [hash_file(source.path) for source in find_sources([str(each.path)], by={}).files],
        ]
        for each in chosen
    ]
    key = digest(json.dumps([_VERSION, is_decoder, seed, made_of], sort_keys=True))
    file = cache / "tasks" / key / "rows.jsonl"
    if not file.is_file():
        lines = [
            json.dumps(_line(each.task, number, example, is_decoder), ensure_ascii=False)
            for number, each in enumerate(chosen)
            for example in _examples(each, seed)
        ]
        make_folder(file.parent)
        write_file(file, "".join(f"{line}\n" for line in lines))
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    task = np.array([row["number"] for row in read], np.int64)
    counts = np.bincount(task, minlength=len(chosen)).tolist()
    told = ", ".join(f"{c.task.name} {n:,}" for c, n in zip(chosen, counts, strict=True))
    return Mixed(
        file=file,
        tasks=tuple(each.task for each in chosen),
        task=task,
        examples=[_example(row["example"]) for row in read],
        notes=(f"rows of tasks: {told}",),
    )


def _examples(chosen: Chosen, seed: int) -> list[Example]:
    """Return a task's examples, of more than its size as many drawn from all of the file."""
    faults, found = Faults("stop"), list[Example]()
    for source in find_sources([str(chosen.path)], by={}).files:
        for portion in work(source):
            for place, record in rows(portion, faults):
                try:
                    found += chosen.task.read(record)
                except DataError as error:
                    faults.add(place, "unfit for the task", f"task {chosen.task.name}: {error}")
    faults.raise_if_any({})
    if not found:
        raise DataError(f"{chosen.path} has no example of task {chosen.task.name}")
    if chosen.size is None or chosen.size >= len(found):
        return found
    keep = np.sort(permutation(seed, _MOST, len(found))[: chosen.size])
    return [found[at] for at in keep]


def _line(task: Task, number: int, example: Example, is_decoder: bool) -> dict[str, Any]:
    """Return a row as the tokeniser reads it, with the example beside it."""
    own = {"text": example.text, "question": example.question, "answers": list(example.answers)}
    kept = {"number": number, "example": {**own, "start": example.start}}
    if is_decoder:
        return {"prompt": task.asked(example), "response": example.answers[0], **kept}
    if example.question is None:
        return {"text_a": example.text, "text_b": None, **kept}
    return {"text_a": example.question, "text_b": example.text, **kept}


def _example(row: Mapping[str, Any]) -> Example:
    return Example(
        text=row["text"],
        question=row["question"],
        answers=tuple(row["answers"]),
        start=row["start"],
    )
