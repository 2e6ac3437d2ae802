"""The task-router recipe: adapters of several tasks on one frozen model, and a router above."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from hotloop.core.errors import ConfigError
from hotloop.core.units import duration, many
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import FILLERS, Form, TokenRows
from hotloop.models.adapters.held import adapters_held
from hotloop.models.adapters.multi_task import attach_stack
from hotloop.models.backbone import load_backbone
from hotloop.models.pooling import Pooling
from hotloop.models.routing import Router, RouterAlone, RouterLoss
from hotloop.models.task_heads import TaskHeads
from hotloop.models.task_router import Joint, TaskRouter, features_width
from hotloop.models.trainable_parameters import check_trainable
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.optimizers import optimizer_of, state_bytes
from hotloop.recipes.building.pretrained import (
    adapters_of,
    choices,
    first_row_text,
    isolation,
    padding_of,
)
from hotloop.recipes.task_router.feature_cache import FeatureRows, ProgressRows, features_of
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
    """Return the tokenised rows of the chosen tasks, with cached features for phases 2 and 3.

    Raises DataError with the file and line of a row that cannot be used, and ConfigError for fewer
    than two tasks in a phase with a router, or for a model that does not fit the tasks.
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
    base_model = find_model(str(config.model.name))
    features = features_of(
        lambda: _model(config, data, base_model, router=False),
        base_model,
        data.store,
        form=_token_form(config, base_model),
        cache=cache,
        progress=progress,
        poll=poll,
    )
    return replace(data, features=features)


def _token_form(config: TaskRouterConfig, base_model: FoundModel) -> Form:
    return Form(
        pad=padding_of(base_model),
        round_to=config.data.pad_to_multiple_of,
        has_labels=base_model.is_decoder,
    )


def build(config: TaskRouterConfig, data: TaskRows) -> Job:
    """Return the job of the configured phase."""
    base_model = find_model(str(config.model.name))
    if config.phase == "2":
        assert data.features is not None
        return _router_job(config, data, base_model, data.features)
    return _adapters_job(config, data, base_model, _token_form(config, base_model), data.features)


def _build_router(section: RouterSection, width: int, tasks: int) -> Router:
    return Router(
        width, tasks, width=section.width, dropout=section.dropout, terms=_loss_terms(section)
    )


def _loss_terms(section: RouterSection) -> RouterLoss:
    return RouterLoss(**{term.name: getattr(section, term.name) for term in fields(RouterLoss)})


def _model(
    config: TaskRouterConfig,
    data: TaskRows,
    base_model: FoundModel,
    *,
    router: bool,
    weights: bool = True,
) -> TaskRouter:
    """Return the model on the CPU; new weights come from torch's global RNG, the heads first."""
    return _build_model(config, data.names, data.labels, base_model, router=router, weights=weights)


def _frozen(
    config: TaskRouterConfig,
    data: TaskRows,
    base_model: FoundModel,
    router: bool,
    dtype: torch.dtype,
    weights: bool,
) -> TaskRouter:
    names, labels = data.names, data.labels
    return _build_model(
        config, names, labels, base_model, router=router, weights=weights, low=dtype
    )


def _build_model(
    config: TaskRouterConfig,
    names: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    base_model: FoundModel,
    *,
    router: bool,
    weights: bool,
    low: torch.dtype | None = None,
) -> TaskRouter:
    is_decoder, section = base_model.is_decoder, config.router
    backbone = load_backbone(
        base_model,
        head=is_decoder,
        isolation=isolation(),
        attention_dropout=config.model.attention_dropout,
        weights=weights,
        low=low,
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
        terms=_loss_terms(section),
    )
    return TaskRouter(
        backbone,
        shares,
        Pooling("mean", width=backbone.width),
        heads=heads,
        router=_build_router(section, features_width(backbone, heads), len(names))
        if router
        else None,
        joint=joint if router else None,
    )


def rebuilt(config: TaskRouterConfig, kept: Mapping[str, str]) -> nn.Module:
    """Return the model of a run without the weights that the run learned; the caller loads them."""
    saved, base_model = json.loads(kept["tasks.json"]), find_model(str(config.model.name))
    names, labels = tuple(saved["tasks"]), tuple(map(tuple, saved["labels"]))
    if config.phase == "2":
        return RouterAlone(_build_router(config.router, saved["features"], len(names)))
    return _build_model(config, names, labels, base_model, router=config.phase == "3", weights=True)


def _feature_function(
    config: TaskRouterConfig,
    data: TaskRows,
    base_model: FoundModel,
    device: torch.device,
    width: int | None,
) -> Callable[[Tensor], Tensor]:
    model = _model(config, data, base_model, router=False).to(device)
    rows = TokenRows(
        data.store,
        data.train.split,
        form=_token_form(config, base_model),
        seed=config.seed,
        shuffle=False,
    )

    def features(row: Tensor) -> Tensor:
        batch = rows.gather(row.cpu().numpy(), width=width)
        tensors = {name: tensor.to(device) for name, tensor in batch.tensors.items()}
        return model.features({**tensors, **batch.beside(device)})

    return features


def _router_job(
    config: TaskRouterConfig, data: TaskRows, base_model: FoundModel, features: Features
) -> Job:
    """Return the job of phase 2: it maps features to tasks, without the frozen model."""
    width, task = features.values.shape[1], data.train.columns["task"]
    columns = {"task": task, "row": np.arange(len(task))}
    rows = partial(FeatureRows, features, columns=columns, seed=config.seed)
    return Job(
        name="task-router",
        model=lambda: RouterAlone(_build_router(config.router, width, len(data.names))),
        loss=loss,
        optimizer=optimizer_of(config.training),
        state_bytes=state_bytes(config.training),
        train=rows(data.train.rows, shuffle=True),
        valid=rows(data.valid.rows, shuffle=False),
        seed=config.seed,
        parts=partial(_step_costs, data.names),
        judge=judge_of(data.names, task, score="routing_accuracy"),
        objective=f"the task of texts by {base_model.fingerprint}",
        learns_tokens=False,
        guesses=len(data.names),
        learns_all=True,
        computed=partial(_feature_function, config, data, base_model),
        kept={"tasks.json": json.dumps(_saved_tasks(data, base_model, width))},
        facts={
            "phase": "2: the router, on features of the frozen model",
            "data": _row_counts(data),
            "features": _features_text(features),
        },
    )


def _adapters_job(
    config: TaskRouterConfig,
    data: TaskRows,
    base_model: FoundModel,
    form: Form,
    features: Features | None,
) -> Job:
    """Return the job of phase 1 (adapters and heads) or of phase 3 (these and the router)."""
    is_joint = features is not None
    train = _rows(config, data.train, data, form, features, shuffle=True)
    width = 0 if features is None else features.values.shape[1]
    return Job(
        name="task-router",
        model=lambda: _model(config, data, base_model, router=is_joint),
        loss=loss,
        optimizer=optimizer_of(config.training),
        state_bytes=state_bytes(config.training),
        train=train,
        valid=_rows(config, data.valid, data, form, features, shuffle=False),
        seed=config.seed,
        cut=by_tokens,
        steady=adapters_held,
        parts=partial(_step_costs, data.names),
        judge=judge_of(data.names, data.train.columns["task"], score="tasks"),
        objective=f"answers to {', '.join(data.names)} by {base_model.fingerprint}",
        widest=train.widest,
        choices=choices,
        fillers=_fillers(base_model, is_joint),
        learns_tokens=base_model.is_decoder,
        learns_all=True,
        skeleton=lambda: _model(config, data, base_model, router=is_joint, weights=False),
        frozen=partial(_frozen, config, data, base_model, is_joint),
        vocabulary=base_model.vocabulary,
        begins=_initial_runs(config) if is_joint else (),
        computed=partial(_feature_function, config, data, base_model) if is_joint else None,
        kept={"tasks.json": json.dumps(_saved_tasks(data, base_model, width))},
        example=partial(first_row_text, base_model, train),
        facts={
            "phase": "3: adapters and router together" if is_joint else "1: adapters",
            "data": _row_counts(data),
            "trains": _trainable_text(config, data, base_model, router=is_joint),
            **({"features": _features_text(features)} if features is not None else {}),
        },
    )


def _fillers(base_model: FoundModel, is_joint: bool) -> Mapping[str, int]:
    """Return values of padding; rows of it are no input for a router or an encoder's heads."""
    return FILLERS if is_joint or not base_model.is_decoder else FILLERS | {"task": 0, "row": 0}


def _step_costs(names: tuple[str, ...], model: nn.Module) -> Mapping[str, float]:
    assert isinstance(model, TaskRouter | RouterAlone), type(model)
    return model.costs.taken(names)


def _initial_runs(config: TaskRouterConfig) -> tuple[Path, ...]:
    assert config.adapters_from is not None
    assert config.router_from is not None
    return Path(config.adapters_from), Path(config.router_from)


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
    columns: dict[str, NDArray[Any]] = {**part.columns, "row": np.arange(count)}
    if features is not None:
        columns["features"] = features.values
    rows = (ProgressRows if features is not None else TokenRows)(
        data.store,
        part.split,
        form=form,
        seed=config.seed,
        shuffle=shuffle,
        like=training.batch_size if config.data.group_by_length else None,
        rows=part.rows,
        beside=columns,
    )
    if isinstance(rows, ProgressRows):
        epochs = (training.epochs or np.inf) * len(data.train.rows)
        rows.samples = min(epochs, (training.max_steps or np.inf) * training.batch_size)
    return rows


def _saved_tasks(data: TaskRows, base_model: FoundModel, features: int) -> dict[str, Any]:
    """Return the contents of tasks.json: the tasks, their labels, and the frozen model."""
    return {
        "tasks": data.names,
        "labels": data.labels,
        "lengths": data.lengths,
        "features": features,
        "model": base_model.fingerprint,
    }


def _row_counts(data: TaskRows) -> str:
    counts = np.bincount(data.train.columns["task"][data.train.rows], minlength=len(data.names))
    per_task = ", ".join(
        f"{name} {n:,}" for name, n in zip(data.names, counts.tolist(), strict=True)
    )
    return (
        f"{many(len(data.train.rows), 'training row')} ({per_task}) and "
        f"{many(len(data.valid.rows), 'validation row')}"
    )


def _features_text(features: Features) -> str:
    rows, width = features.values.shape
    how = "kept by an earlier run, some made again and the same"
    if features.seconds is not None:
        how = f"made once in {duration(features.seconds)}"
    return f"{rows:,} x {width} of the frozen model, {how}"


def _trainable_text(
    config: TaskRouterConfig, data: TaskRows, base_model: FoundModel, *, router: bool
) -> str:
    """Check that the trainable parameters are those of the phase, and return them in words."""
    with torch.device("meta"):
        model = _model(config, data, base_model, router=router, weights=False)
    heads = [name for name in ("heads", "router") if getattr(model, name) is not None]
    return str(check_trainable(model, means="adapters", head=heads))
