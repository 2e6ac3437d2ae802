"""Routes rows by a trained task router and answers them; what that is worth beside other ways."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import torch
from torch.nn import functional

from hotloop.core.errors import DeviceError, UsageError
from hotloop.data.sampling.epoch_order import permutation
from hotloop.models.task_router import TaskRouter
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.task_router.corpus import known_tasks
from hotloop.recipes.task_router.metrics import Routed
from hotloop.recipes.task_router.requests import RoutingRequest, Speaker, held_out, read, speaker
from hotloop.recipes.task_router.rows import NONE, prepare_rows
from hotloop.recipes.task_router.score_table import router_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

    from hotloop.recipes.task_router.config import TaskRouterConfig
    from hotloop.recipes.task_router.task_base import Task

__all__ = ["Answered", "Way", "predict"]

_STREAM: Final = 1 << 42  # of permutations
ROUTED, ORACLE = "routed", "oracle"
MOST: Final = 200  # rows of a task that a run's own are limited to


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How good answers are where adapters are chosen in one way."""

    name: str
    figures: Mapping[str, Mapping[str, float]]  # of each task with rows
    score: float  # mean over tasks of the figure that counts, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """What a task router says of rows, in their order."""

    truth: ClassVar[str] = "right answers"  # what rows must have to be scored
    names: tuple[str, ...]  # of the tasks
    probabilities: NDArray[np.float32]  # [rows, tasks]; of a run without a router none: 0 columns
    head: NDArray[np.int64]  # [rows] the task that was taken
    answers: tuple[str, ...]
    task: NDArray[np.int64]  # [rows] the task that it is, or NONE
    routed: Routed | None  # None: not known, or there is no router
    ways: tuple[Way, ...]  # routed or the rows' own, and with baselines others; none: not known
    notes: tuple[str, ...] = field(default_factory=tuple)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield for each row the task it was taken for, how probable each is, and the answer."""
        for row, answer in enumerate(self.answers):
            shares = self.probabilities[row].tolist()
            yield {
                "task": self.names[self.head[row]],
                **({"probabilities": dict(zip(self.names, shares, strict=True))} if shares else {}),
                "answer": answer,
                **({"is": self.names[self.task[row]]} if self.task[row] != NONE else {}),
            }

    def scores(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: nothing could be scored."""
        if not self.ways:
            return None
        found: dict[str, Any] = {
            "tasks": list(self.names),
            "rows": np.bincount(self.task, minlength=len(self.names)).tolist(),
            "ways": {w.name: {"score": w.score, "figures": w.figures} for w in self.ways},
            "notes": list(self.notes),
        }
        if (routed := self.routed) is not None:
            found["routing"] = {
                "accuracy": routed.accuracy,
                "confidence": routed.sure,
                "entropy": routed.entropy,
                "balance": routed.balance,
                "confusion": routed.confusion.tolist(),
            }
        return found

    def table(self) -> str:
        """Return the scores, which there must be, as lines of text without colour."""
        scores = self.scores()
        assert scores is not None
        return router_table(scores)


def predict(
    config: TaskRouterConfig,
    model: nn.Module,
    kept: Mapping[str, str],
    path: Path | None,
    *,
    cache: Path,
    progress: Callable[[int, int], None] | None = None,
    baselines: bool = False,
    most: int | None = None,
    declared: str | None = None,
) -> Answered:
    """Return how rows are routed, and the answers; of a file, or without one of the held-out rows.

    Of those `most` of each task, 200 if that is None. With `baselines` the same rows are answered
    by the adapters of their own tasks (oracle), by each alone, by a random one, and by all at equal
    shares (uniform). `declared` names the files of tasks of the user's own, which are run as code.
    Raises UsageError for a run of phase 2, which has no model, DataError for rows that cannot be
    used.
    """
    config = replace(config, data=replace(config.data, declared=declared))
    if not isinstance(model, TaskRouter):
        raise UsageError("a run of phase 2 has a router alone: predict with the run of phase 3")
    told: dict[str, Any] = json.loads(kept["tasks.json"])
    known = known_tasks(declared)
    tasks = [known[name] for name in told["tasks"]]
    found = find_model(str(config.model.name))
    asked = _asked(config, path, tasks, cache, MOST if most is None else most)
    if model.router is None and not asked.known:
        raise UsageError("a run of phase 1 has no router: each row needs its task")
    speaks = speaker(
        model,
        asked,
        tasks,
        found,
        labels=told["labels"],
        longest=config.data.max_length,
        lengths=told["lengths"],
    )
    passes = 1 + (len(tasks) + 1 if baselines and asked.known else 0)
    tell = _Counted(progress, passes * len(asked.task))
    probabilities, head = _believed(model, asked, speaks)
    own = functional.one_hot(torch.from_numpy(head), len(tasks)).float()
    said = tell(speaks.answers(own, head))
    notes: list[str] = []
    ways = []
    if asked.known:
        ways.append(_way(ORACLE if model.router is None else ROUTED, said, asked, tasks, notes))
    if asked.known and baselines:
        ways += _others(speaks, asked, tasks, config.seed, tell, notes)
    return Answered(
        names=tuple(told["tasks"]),
        probabilities=probabilities,
        head=head,
        answers=said,
        task=asked.task,
        routed=_routed(told["tasks"], asked, probabilities, head),
        ways=tuple(ways),
        notes=tuple(dict.fromkeys(notes)),
    )


def _asked(
    config: TaskRouterConfig, path: Path | None, tasks: Sequence[Task], cache: Path, most: int
) -> RoutingRequest:
    """Return the rows of a file, or without one those that the run held out."""
    if path is None:
        return held_out(prepare_rows(config, cache=cache), most=most, seed=config.seed)
    return read(path, tasks, is_decoder=find_model(str(config.model.name)).is_decoder)


def _believed(
    model: TaskRouter, asked: RoutingRequest, speaks: Speaker
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return how probable each task is, and the one that is taken; without a router the row's."""
    if model.router is None:
        return np.empty((len(asked.task), 0), np.float32), asked.task
    with torch.inference_mode():
        device = next(model.parameters()).device
        logits = model.router(speaks.features().to(device)).float().cpu()
    return logits.softmax(1).numpy(), logits.argmax(1).numpy()


class _Counted:
    """Tells how many rows were answered."""

    def __init__(self, progress: Callable[[int, int], None] | None, whole: int) -> None:
        self._progress, self._whole, self._done = progress, whole, 0

    def __call__(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        self._done += len(texts)
        if self._progress is not None:
            self._progress(self._done, self._whole)
        return texts


def _others(
    speaks: Speaker,
    asked: RoutingRequest,
    tasks: Sequence[Task],
    seed: int,
    tell: _Counted,
    notes: list[str],
) -> list[Way]:
    """Return the ways without a router; heads are those of the rows' own tasks."""
    rows, count = len(asked.task), len(tasks)
    alone = []
    for number in range(count):
        shares = torch.zeros(rows, count)
        shares[:, number] = 1
        alone.append(tell(speaks.answers(shares, asked.task)))
    even = tell(speaks.answers(torch.full((rows, count), 1 / count), asked.task))
    drawn = permutation(seed, _STREAM, rows) % count
    ways = [_way(ORACLE, _picked(alone, asked.task), asked, tasks, notes)]
    ways += [
        _way(f"{task.name} alone", said, asked, tasks, notes)
        for task, said in zip(tasks, alone, strict=True)
    ]
    ways.append(_way("random", _picked(alone, drawn), asked, tasks, notes))
    ways.append(_way("uniform", even, asked, tasks, notes))
    return ways


def _picked(alone: Sequence[tuple[str, ...]], which: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(alone[number][row] for row, number in enumerate(which.tolist()))


def _way(
    name: str, said: Sequence[str], asked: RoutingRequest, tasks: Sequence[Task], notes: list[str]
) -> Way:
    figures: dict[str, Mapping[str, float]] = {}
    scores = []
    for number, task in enumerate(tasks):
        own = np.flatnonzero(asked.task == number).tolist()
        if not own:
            continue
        right = [asked.examples[row].answers for row in own]
        try:
            figures[task.name] = task.figures([said[row] for row in own], right)
        except DeviceError as error:  # a package of figures is not there
            notes.append(f"{task.name} is not scored: {error}")
            continue
        scores.append(figures[task.name][task.score] / task.best)
    return Way(name=name, figures=figures, score=float(np.mean(scores)) if scores else 0.0)


def _routed(
    names: Sequence[str],
    asked: RoutingRequest,
    probabilities: NDArray[np.float32],
    head: NDArray[np.int64],
) -> Routed | None:
    if not asked.known or not probabilities.shape[1]:
        return None
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, (asked.task, head), 1)
    shares = probabilities.astype(np.float64)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return Routed(
        names=tuple(names),
        confusion=table,
        sure=float(shares.max(1).mean()),
        entropy=float(-(shares * logs).sum(1).mean()),
    )
