"""The task-router recipe: adapters of several tasks on one frozen model, and a router above."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from hotloop.core.errors import ConfigError
from hotloop.core.units import duration, many
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.models.adapters.multi_task import attach_stack
from hotloop.models.backbone import load_backbone
from hotloop.models.pooling import Pooling
from hotloop.models.routing import Router, RouterAlone, RouterLoss
from hotloop.models.task_heads import TaskHeads
from hotloop.models.task_router import Joint, TaskRouter, features_width
from hotloop.models.trainable_parameters import check_trainable
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.optimizers import optimizer_of, state_bytes
from hotloop.recipes.building.pretrained import adapters_of, choices, isolation, padding_of, shown
from hotloop.recipes.task_router.feature_cache import FeatureRows, features_of
from hotloop.recipes.task_router.metrics import judge_of, loss
from hotloop.recipes.task_router.rows import prepare_rows
from hotloop.session.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.task_router.config import RouterSection, TaskRouterConfig
    from hotloop.recipes.task_router.feature_cache import Features
    from hotloop.recipes.task_router.rows import TaskRows
    from hotloop.session.batch import Batch

__all__ = ["build", "prepare_data", "rebuilt"]

_ROUTED: Final = ("2", "3")  # phases with a router
_FEWEST: Final = 2  # tasks that a router can choose between


def prepare_data(
    config: TaskRouterConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> TaskRows:
    """Return the rows of the chosen tasks, tokenised once, and the features that a phase needs.

    Raises DataError with the place of what cannot be used, ConfigError for tasks or a model that
    do not fit together.
    """
    data = prepare_rows(config, cache=cache, progress=progress, poll=poll)
    if config.phase not in _ROUTED:
        return data
    if len(data.names) < _FEWEST:
        raise ConfigError(
            f"a router chooses between tasks, and there are rows of one alone, {data.names[0]}: "
            "add rows of another (data.path, data.files, data.tasks), or train its adapter alone "
            "with phase=1"
        )
    found = find_model(str(config.model.name))
    features = features_of(
        lambda: _model(config, data, found, router=False),
        found,
        data.store,
        form=_form(config, found),
        cache=cache,
        progress=progress,
        poll=poll,
    )
    return replace(data, features=features)


def _form(config: TaskRouterConfig, found: FoundModel) -> Form:
    return Form(
        pad=padding_of(found), round_to=config.data.pad_to_multiple_of, has_labels=found.is_decoder
    )


def build(config: TaskRouterConfig, data: TaskRows) -> Job:
    """Return the job of a phase."""
    found = find_model(str(config.model.name))
    if config.phase == "2":
        assert data.features is not None
        return _router_job(config, data, found, data.features)
    return _adapters_job(config, data, found, _form(config, found), data.features)


def _router_of(section: RouterSection, width: int, tasks: int) -> Router:
    return Router(width, tasks, width=section.width, dropout=section.dropout, terms=_terms(section))


def _terms(section: RouterSection) -> RouterLoss:
    return RouterLoss(
        balance=section.balance,
        efficiency=section.efficiency,
        consistency=section.consistency,
        entropy=section.entropy,
        temperature=section.temperature,
        noise=section.noise,
    )


def _model(
    config: TaskRouterConfig,
    data: TaskRows,
    found: FoundModel,
    *,
    router: bool,
    weights: bool = True,
) -> TaskRouter:
    """Return the model on the CPU: what is new is drawn from torch's own stream, heads first."""
    return _made(config, data.names, data.labels, found, router=router, weights=weights)


def _made(
    config: TaskRouterConfig,
    names: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    found: FoundModel,
    *,
    router: bool,
    weights: bool,
) -> TaskRouter:
    is_decoder, section = found.is_decoder, config.router
    backbone = load_backbone(
        found,
        head=is_decoder,
        isolation=isolation(),
        attention_dropout=config.model.attention_dropout,
        weights=weights,
        seed=config.seed,
    )
    shares = attach_stack(backbone.model, adapters_of(config.adapter, config.seed), names)
    heads = None
    if not is_decoder:
        heads = TaskHeads(
            backbone.width, labels=[*map(len, labels)], spans=[not own for own in labels]
        )
    joint = Joint(
        routing=section.routing,
        hot=section.hot,
        cold=section.cold,
        handed_over=section.handed_over,
        weight=section.weight,
        terms=_terms(section),
    )
    return TaskRouter(
        backbone,
        shares,
        Pooling("mean", width=backbone.width),
        heads=heads,
        router=_router_of(section, features_width(backbone, heads), len(names)) if router else None,
        joint=joint if router else None,
    )


def rebuilt(config: TaskRouterConfig, kept: Mapping[str, str]) -> nn.Module:
    """Return the model of a run, of which the run's own learned weights are still to be read."""
    told, found = json.loads(kept["tasks.json"]), find_model(str(config.model.name))
    names, labels = tuple(told["tasks"]), tuple(map(tuple, told["labels"]))
    if config.phase == "2":
        return RouterAlone(_router_of(config.router, told["features"], len(names)))
    return _made(config, names, labels, found, router=config.phase == "3", weights=True)


def _computed(
    config: TaskRouterConfig,
    data: TaskRows,
    found: FoundModel,
    device: torch.device,
    width: int | None,
) -> Callable[[Tensor], Tensor]:
    model = _model(config, data, found, router=False).to(device)
    rows = TokenRows(
        data.store, data.train.split, form=_form(config, found), seed=config.seed, shuffle=False
    )

    def features(row: Tensor) -> Tensor:
        batch = rows.gather(row.cpu().numpy(), width=width)
        given = {name: each.to(device) for name, each in batch.tensors.items()}
        return model.features({**given, **batch.beside(device)})

    return features


def _router_job(
    config: TaskRouterConfig, data: TaskRows, found: FoundModel, features: Features
) -> Job:
    """Return the job of phase 2: features to tasks; the frozen model is no part of it."""
    width, task = features.values.shape[1], data.train.columns["task"]
    columns = {"task": task, "row": np.arange(len(task))}
    rows = partial(FeatureRows, features, columns=columns, seed=config.seed)
    return Job(
        name="task-router",
        model=lambda: RouterAlone(_router_of(config.router, width, len(data.names))),
        loss=loss,
        optimizer=optimizer_of(config.training),
        state_bytes=state_bytes(config.training),
        train=rows(data.train.rows, shuffle=True),
        valid=rows(data.valid.rows, shuffle=False),
        seed=config.seed,
        parts=partial(_costs, data.names),
        judge=judge_of(data.names, task, score="routing_accuracy"),
        objective=f"the task of texts by {found.fingerprint}",
        learns_tokens=False,
        guesses=len(data.names),
        learns_all=True,
        computed=partial(_computed, config, data, found),
        kept={"tasks.json": json.dumps(_kept(data, found, width))},
        facts={
            "phase": "2: the router, on features of the frozen model",
            "data": _counted(data),
            "features": _told(features),
        },
    )


def _adapters_job(
    config: TaskRouterConfig,
    data: TaskRows,
    found: FoundModel,
    form: Form,
    features: Features | None,
) -> Job:
    """Return the job of phases 1 and 3: adapters and heads, and in phase 3 the router with them."""
    is_joint = features is not None
    train = _rows(config, data.train, data, form, features, shuffle=True)
    width = 0 if features is None else features.values.shape[1]
    return Job(
        name="task-router",
        model=lambda: _model(config, data, found, router=is_joint),
        loss=loss,
        optimizer=optimizer_of(config.training),
        state_bytes=state_bytes(config.training),
        train=train,
        valid=_rows(config, data.valid, data, form, features, shuffle=False),
        seed=config.seed,
        cut=by_tokens,
        parts=partial(_costs, data.names),
        judge=judge_of(data.names, data.train.columns["task"], score="tasks"),
        objective=f"answers to {', '.join(data.names)} by {found.fingerprint}",
        widest=train.widest,
        choices=choices,
        learns_tokens=found.is_decoder,
        learns_all=True,
        skeleton=lambda: _model(config, data, found, router=is_joint, weights=False),
        vocabulary=found.vocabulary,
        begins=_begins(config) if is_joint else (),
        computed=partial(_computed, config, data, found) if is_joint else None,
        kept={"tasks.json": json.dumps(_kept(data, found, width))},
        example=partial(shown, found, train),
        facts={
            "phase": "3: adapters and router together" if is_joint else "1: adapters",
            "data": _counted(data),
            "trains": _trains(config, data, found, router=is_joint),
            **({"features": _told(features)} if features is not None else {}),
        },
    )


def _costs(names: tuple[str, ...], model: nn.Module) -> Mapping[str, float]:
    assert isinstance(model, TaskRouter | RouterAlone), type(model)
    return model.costs.taken(names)


def _begins(config: TaskRouterConfig) -> tuple[Path, ...]:
    assert config.adapters_from is not None
    assert config.router_from is not None
    return Path(config.adapters_from), Path(config.router_from)


class _Paced(TokenRows):
    """Rows that know how far the run is: progress [rows], 0 to 1."""

    samples = 1.0  # of the whole run

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return those samples."""
        made = super().batch(epoch, first, count)
        at = epoch * len(self) + first + torch.arange(count, dtype=torch.float32)
        return replace(made, tensors={**made.tensors, "progress": at / self.samples})

    def widest(self, count: int) -> Batch:
        """Return a batch of `count` of the longest rows, at the end of the run."""
        made = super().widest(count)
        return replace(made, tensors={**made.tensors, "progress": torch.ones(count)})


def _rows(
    config: TaskRouterConfig,
    part: Part,
    data: TaskRows,
    form: Form,
    features: Features | None,
    *,
    shuffle: bool,
) -> TokenRows:
    training = config.training
    count = len(part.columns["task"])
    beside: dict[str, NDArray[Any]] = {**part.columns, "row": np.arange(count)}
    if features is not None:
        beside["features"] = features.values
    rows = (_Paced if features is not None else TokenRows)(
        data.store,
        part.split,
        form=form,
        seed=config.seed,
        shuffle=shuffle,
        like=training.batch_size,
        rows=part.rows,
        beside=beside,
    )
    if isinstance(rows, _Paced):
        epochs = (training.epochs or np.inf) * len(data.train.rows)
        rows.samples = min(epochs, (training.max_steps or np.inf) * training.batch_size)
    return rows


def _kept(data: TaskRows, found: FoundModel, features: int) -> dict[str, Any]:
    """Return what a run folder keeps: what its adapters, heads and routes are of."""
    return {
        "tasks": data.names,
        "labels": data.labels,
        "lengths": data.lengths,
        "features": features,
        "model": found.fingerprint,
    }


def _counted(data: TaskRows) -> str:
    counts = np.bincount(data.train.columns["task"][data.train.rows], minlength=len(data.names))
    told = ", ".join(f"{name} {n:,}" for name, n in zip(data.names, counts.tolist(), strict=True))
    return (
        f"{many(len(data.train.rows), 'training row')} ({told}) and "
        f"{many(len(data.valid.rows), 'validation row')}"
    )


def _told(features: Features) -> str:
    rows, width = features.values.shape
    how = "kept by an earlier run, some made again and the same"
    if features.seconds is not None:
        how = f"made once in {duration(features.seconds)}"
    return f"{rows:,} x {width} of the frozen model, {how}"


def _trains(config: TaskRouterConfig, data: TaskRows, found: FoundModel, *, router: bool) -> str:
    """Return what is trained, once it was checked against what the phase means."""
    with torch.device("meta"):
        model = _model(config, data, found, router=router, weights=False)
    heads = [name for name in ("heads", "router") if getattr(model, name) is not None]
    return str(check_trainable(model, means="adapters", head=heads))
