"""Routes and answers rows by a trained task router, and scores that beside other routings."""

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

_STREAM: Final = 1 << 42  # permutation stream of the random routing
ROUTED, ORACLE = "routed", "oracle"
MOST: Final = 200  # held-out rows per task, where no file is given


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The scores of the answers under one way of choosing adapters."""

    name: str
    figures: Mapping[str, Mapping[str, float]]  # of each task with rows
    score: float  # mean over tasks of the figure that counts, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """The routes and answers of some rows, in the order of the rows."""

    truth: ClassVar[str] = "right answers"  # what rows need in order to be scored
    names: tuple[str, ...]  # of the tasks
    probabilities: NDArray[np.float32]  # [rows, tasks]; [rows, 0] for a run without a router
    head: NDArray[np.int64]  # [rows] number of the chosen task
    answers: tuple[str, ...]
    task: NDArray[np.int64]  # [rows] number of the true task, or NONE
    routed: Routed | None  # None: the tasks are unknown, or there is no router
    ways: tuple[Way, ...]  # the run's own routing, then the baselines; empty: tasks unknown
    notes: tuple[str, ...] = field(default_factory=tuple)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield each row's chosen task, the probability of every task, and the answer."""
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
        scores: dict[str, Any] = {
            "tasks": list(self.names),
            "rows": np.bincount(self.task, minlength=len(self.names)).tolist(),
            "ways": {w.name: {"score": w.score, "figures": w.figures} for w in self.ways},
            "notes": list(self.notes),
        }
        if (routed := self.routed) is not None:
            scores["routing"] = {
                "accuracy": routed.accuracy,
                "confidence": routed.sure,
                "entropy": routed.entropy,
                "balance": routed.balance,
                "confusion": routed.confusion.tolist(),
            }
        return scores

    def table(self) -> str:
        """Return the scores as plain lines of text; `scores` must not be None."""
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
    """Return the routes and the answers for the rows of a file, or for the run's validation rows.

    `most` limits the validation rows of each task; None means 200. `baselines` also answers the
    rows by the adapter of their own task (oracle), by each adapter alone, by a random one, and by
    all in equal shares (uniform). `declared` names the files of the user's own tasks, which are
    executed. Raises UsageError for a run that cannot route the rows, DataError for unusable rows.
    """
    config = replace(config, data=replace(config.data, declared=declared))
    if not isinstance(model, TaskRouter):
        raise UsageError("a run of phase 2 has a router alone: predict with the run of phase 3")
    saved: dict[str, Any] = json.loads(kept["tasks.json"])
    tasks_by_name = known_tasks(declared)
    tasks = [tasks_by_name[name] for name in saved["tasks"]]
    base_model = find_model(str(config.model.name))
    request = _read_request(config, path, tasks, cache, MOST if most is None else most)
    if model.router is None and not request.known:
        raise UsageError("a run of phase 1 has no router: each row needs its task")
    speaks = speaker(
        model,
        request,
        tasks,
        base_model,
        labels=saved["labels"],
        longest=config.data.max_length,
        lengths=saved["lengths"],
    )
    passes = 1 + (len(tasks) + 1 if baselines and request.known else 0)
    count_answers = _ProgressCounter(progress, passes * len(request.task))
    probabilities, head = _task_probabilities(model, request, speaks)
    one_hot = functional.one_hot(torch.from_numpy(head), len(tasks)).float()
    answers = count_answers(speaks.answers(one_hot, head))
    notes: list[str] = []
    ways = []
    if request.known:
        name = ORACLE if model.router is None else ROUTED
        ways.append(_score_way(name, answers, request, tasks, notes))
    if request.known and baselines:
        ways += _baseline_ways(speaks, request, tasks, config.seed, count_answers, notes)
    return Answered(
        names=tuple(saved["tasks"]),
        probabilities=probabilities,
        head=head,
        answers=answers,
        task=request.task,
        routed=_routing_scores(saved["tasks"], request, probabilities, head),
        ways=tuple(ways),
        notes=tuple(dict.fromkeys(notes)),
    )


def _read_request(
    config: TaskRouterConfig, path: Path | None, tasks: Sequence[Task], cache: Path, most: int
) -> RoutingRequest:
    """Return the rows of a file, or the run's validation rows where there is no file."""
    if path is None:
        return held_out(prepare_rows(config, cache=cache), most=most, seed=config.seed)
    return read(path, tasks, is_decoder=find_model(str(config.model.name)).is_decoder)


def _task_probabilities(
    model: TaskRouter, request: RoutingRequest, speaks: Speaker
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the task probabilities [rows, tasks] and the chosen task [rows].

    Without a router there are no probabilities ([rows, 0]) and each row's own task is chosen.
    """
    if model.router is None:
        return np.empty((len(request.task), 0), np.float32), request.task
    with torch.inference_mode():
        device = next(model.parameters()).device
        logits = model.router(speaks.features().to(device)).float().cpu()
    return logits.softmax(1).numpy(), logits.argmax(1).numpy()


class _ProgressCounter:
    """Counts the answered rows and reports them as progress."""

    def __init__(self, progress: Callable[[int, int], None] | None, whole: int) -> None:
        self._progress, self._whole, self._done = progress, whole, 0

    def __call__(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        self._done += len(texts)
        if self._progress is not None:
            self._progress(self._done, self._whole)
        return texts


def _baseline_ways(
    speaks: Speaker,
    request: RoutingRequest,
    tasks: Sequence[Task],
    seed: int,
    count_answers: _ProgressCounter,
    notes: list[str],
) -> list[Way]:
    """Return the scores of the routings without a router; each row uses its own task's head."""
    rows, count = len(request.task), len(tasks)
    alone = []
    for number in range(count):
        shares = torch.zeros(rows, count)
        shares[:, number] = 1
        alone.append(count_answers(speaks.answers(shares, request.task)))
    uniform = count_answers(speaks.answers(torch.full((rows, count), 1 / count), request.task))
    random_task = permutation(seed, _STREAM, rows) % count
    ways = [_score_way(ORACLE, _pick_answers(alone, request.task), request, tasks, notes)]
    ways += [
        _score_way(f"{task.name} alone", answers, request, tasks, notes)
        for task, answers in zip(tasks, alone, strict=True)
    ]
    ways.append(_score_way("random", _pick_answers(alone, random_task), request, tasks, notes))
    ways.append(_score_way("uniform", uniform, request, tasks, notes))
    return ways


def _pick_answers(alone: Sequence[tuple[str, ...]], which: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(alone[number][row] for row, number in enumerate(which.tolist()))


def _score_way(
    name: str,
    answers: Sequence[str],
    request: RoutingRequest,
    tasks: Sequence[Task],
    notes: list[str],
) -> Way:
    figures: dict[str, Mapping[str, float]] = {}
    scores = []
    for number, task in enumerate(tasks):
        rows = np.flatnonzero(request.task == number).tolist()
        if not rows:
            continue
        right = [request.examples[row].answers for row in rows]
        try:
            figures[task.name] = task.figures([answers[row] for row in rows], right)
        except DeviceError as error:  # a package of figures is not there
            notes.append(f"{task.name} is not scored: {error}")
            continue
        scores.append(figures[task.name][task.score] / task.best)
    return Way(name=name, figures=figures, score=float(np.mean(scores)) if scores else 0.0)


def _routing_scores(
    names: Sequence[str],
    request: RoutingRequest,
    probabilities: NDArray[np.float32],
    head: NDArray[np.int64],
) -> Routed | None:
    if not request.known or not probabilities.shape[1]:
        return None
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, (request.task, head), 1)
    shares = probabilities.astype(np.float64)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return Routed(
        names=tuple(names),
        confusion=table,
        sure=float(shares.max(1).mean()),
        entropy=float(-(shares * logs).sum(1).mean()),
    )
