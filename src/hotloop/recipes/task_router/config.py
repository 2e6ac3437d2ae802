"""Configures task-router, which trains an adapter for each task and a router that picks one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from hotloop.config.common import (
    ALL,
    AUTO,
    NO_WORKERS,
    PRESET_MEANING,
    Training,
    check_shared,
)
from hotloop.config.layers import SettingsLayer
from hotloop.config.resolver import Resolver
from hotloop.config.schema import idle, setting, setting_text
from hotloop.config.settings import Resolved
from hotloop.config.text_common import TEXT_ALIASES, Adapter, check_adapter, is_typed
from hotloop.recipes.task_router.presets import EFFORTS, EXPERIMENTS, PRESETS

__all__ = [
    "PHASES",
    "TaskRouterConfig",
    "after_phases",
    "idle_task_router",
    "one_phase",
    "phases",
    "resolve_task_router",
    "sizes_of",
    "task_names",
]

_NOTHING: Mapping[str, str] = MappingProxyType({})
PHASES = {
    "phase-1": "adapters, each on its task",
    "phase-2": "the router, on features of the frozen model",
    "phase-3": "adapters and router together",
}
_SIZES = ("sentiment", "questions", "summaries", "code", "translation")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterModel:
    """The frozen model below: an encoder (labels and spans) or a decoder (text to text)."""

    name: str | None = setting(None, "folder or hub id of the pretrained model")
    attention_dropout: float | None = setting(
        None, "of the model's attention; null: as its config.json says", low=0, high=0.9
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterData:
    """Rows of the tasks."""

    path: str | None = setting(None, "folder with the rows of the tasks, by their usual names")
    tasks: str = setting(ALL, "names with commas between; all: those that have rows")
    files: Mapping[str, str] = setting({}, "where the rows of a task are {task: file}")
    fields: Mapping[str, str] = setting(
        {}, "keys of a task's rows, where they have other names {task: 'text=KEY,label=KEY'}"
    )
    declared: str | None = setting(None, "Python file with a task of your own; commas between")
    sizes: Mapping[str, str] = setting({}, "rows of a task at most {task: rows}")
    sentiment_size: int | None = setting(None, "rows of it at most", low=2)
    questions_size: int | None = setting(None, "rows of it at most", low=2)
    summaries_size: int | None = setting(None, "rows of it at most", low=2)
    code_size: int | None = setting(None, "rows of it at most", low=2)
    translation_size: int | None = setting(None, "rows of it at most", low=2)
    validation_share: float = setting(
        0.1, "share of each task's rows held out", low=0, low_open=True, high=0.5
    )
    max_length: int = setting(256, "tokens of a row; what is longer is cut off", low=8)
    group_by_length: bool = setting(
        False, "rows of like length come together: it may cost quality", before=True
    )
    pad_to_multiple_of: int = setting(
        8, "widths of batches are multiples of it, as matrix units like them", low=1
    )
    drop_last: bool = setting(False, "leave out an epoch's last, smaller batch")
    num_workers: int = setting(0, "loader processes", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSection:
    """The router, and what its loss is made of beside being right (docs: models/routing.py)."""

    width: int = setting(256, "of its hidden layer", low=1)
    dropout: float = setting(0.1, "share of the hidden layer dropped", low=0, high=0.9)
    routing: Literal["hard", "soft", "gumbel"] = setting("gumbel", "how adapters are chosen")
    hot: float = setting(2.0, "temperature at the start of phase 3", low=0, low_open=True)
    cold: float = setting(0.5, "temperature at its end", low=0, low_open=True)
    handed_over: float = setting(
        0.5, "share of phase 3 after which the router alone chooses", low=0, low_open=True, high=1
    )
    weight: float = setting(0.1, "of its terms beside the tasks' loss, in phase 3", low=0)
    balance: float = setting(0.01, "weight of: all adapters are used alike", low=0)
    efficiency: float = setting(0.01, "weight of: a row takes one adapter", low=0)
    consistency: float = setting(0.1, "weight of: noise changes nothing", low=0)
    entropy: float = setting(0.01, "weight of: it is sure", low=0)
    temperature: float = setting(0.001, "weight of: logits stay small", low=0)
    noise: float = setting(0.1, "of consistency, in deviations of the features", low=0)


def _training(**more: object) -> Training:
    usual: dict[str, object] = {
        "epochs": 2,
        "batch_size": 32,
        "min_learning_rate": 0.0,
        "schedule": "linear",
        "warmup_steps": 0,
        "warmup_share": 0.06,
        "weight_decay": 0.0,
        "betas": (0.9, 0.999),
        "eval_every_steps": None,
        "eval_every_epochs": 1,
    }
    return Training(**{**usual, **more})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRouterConfig:
    """Everything that decides a task-router run, but for the machine.

    `training` is of phase 1; a run of another phase has in it what router_training or
    joint_training say, unless that is typed.
    """

    seed: int = setting(1337, "of adapters, heads, order and noise", low=0, high=2**32 - 1)
    preset: str = setting(AUTO, PRESET_MEANING, choices=(AUTO, *PRESETS, *EFFORTS))
    experiment: str | None = setting(None, "values of a known experiment", choices=EXPERIMENTS)
    init_from: str | None = setting(None, "what an earlier run learned: a run or .safetensors")
    phase: str = setting(ALL, "1, 2, 3, or all of them in turn", choices=(ALL, "1", "2", "3"))
    adapters_from: str | None = setting(None, "run of phase 1, for phase 3")
    router_from: str | None = setting(None, "run of phase 2, for phase 3")
    training: Training = field(default_factory=lambda: _training(learning_rate=1e-3))
    router_training: Training = field(
        default_factory=lambda: _training(epochs=10, batch_size=64, learning_rate=2e-3)
    )
    joint_training: Training = field(
        default_factory=lambda: _training(epochs=1, learning_rate=3e-4)
    )
    data: RouterData = field(default_factory=RouterData)
    model: RouterModel = field(default_factory=RouterModel)
    adapter: Adapter = field(default_factory=lambda: Adapter(method="lora", rank=8, alpha=16.0))
    router: RouterSection = field(default_factory=RouterSection)


def task_names(config: TaskRouterConfig) -> list[str]:
    """Return the names in data.tasks; an empty list stands for all tasks that have rows."""
    names = [name.strip() for name in config.data.tasks.split(",")]
    return [] if names == [ALL] else names


def sizes_of(config: TaskRouterConfig) -> dict[str, int]:
    """Return the maximum number of rows by task, for tasks with such a limit."""
    sizes = {name: getattr(config.data, f"{name}_size") for name in _SIZES}
    sizes |= {name: int(size) for name, size in config.data.sizes.items()}
    return {name: size for name, size in sizes.items() if size is not None}


def phases(config: TaskRouterConfig) -> Mapping[str, str]:
    """Return the runs of phase=all with their descriptions; empty where there is one run."""
    return PHASES if config.phase == ALL else {}


def one_phase(config: TaskRouterConfig, name: str) -> TaskRouterConfig:
    """Return the configuration of one run of phase=all."""
    trainings = {
        "phase-1": config.training,
        "phase-2": config.router_training,
        "phase-3": config.joint_training,
    }
    return replace(config, phase=name.removeprefix("phase-"), training=trainings[name])


def after_phases(config: TaskRouterConfig, out: Path) -> TaskRouterConfig:
    """Return the configuration of a phase; phase 3 gets the folders of phases 1 and 2."""
    if config.phase != "3":
        return config
    folder = out.resolve()
    return replace(
        config, adapters_from=str(folder / "phase-1"), router_from=str(folder / "phase-2")
    )


def check_task_router(config: TaskRouterConfig, origins: Mapping[str, str] = _NOTHING) -> None:
    """Raise ConfigError for settings that contradict each other, one line for each."""
    problems = check_adapter(config, config.adapter, origins)
    if config.adapter.method != "lora":
        method = setting_text(config, "adapter.method", origins)
        problems.append(f"{method}: adapters that are routed are of the kind lora")
    if config.model.name is None:
        problems.append("model.name is missing: a folder of a pretrained model, or its hub id")
    if config.data.path is None and not config.data.files:
        problems.append("data.path is missing: a folder with the rows of the tasks")
    problems += [
        f"data.sizes.{name}={size}: rows are a whole number from 2"
        for name, size in config.data.sizes.items()
        if not size.isdecimal() or int(size) < 2
    ]
    problems += [
        f"data.fields.{name}={keys}: a key for each part, as in text=KEY,label=KEY"
        for name, keys in config.data.fields.items()
        if not all(part and "=" in part.strip("=") for part in keys.split(","))
    ]
    if config.phase == "3" and None in (config.adapters_from, config.router_from):
        problems.append(
            "phase=3 goes on from phases 1 and 2: adapters_from=RUN_DIR router_from=RUN_DIR, or "
            "hotloop train task-router phase=all --out DIR"
        )
    for name in ("router_training", "joint_training"):
        section = getattr(config, name)
        if section.batch_size % section.accumulation:
            problems.append(f"{name}.batch_size is not divisible by {name}.accumulation")
    check_shared(config, origins, problems)


def idle_task_router(config: TaskRouterConfig, origins: Mapping[str, str]) -> dict[str, str]:
    """Return, by key, the reason why a non-default setting has no effect."""
    return idle(config, origins, {"data.num_workers": NO_WORKERS})


def _phase_training(resolved: Resolved[TaskRouterConfig]) -> SettingsLayer | None:
    """Return the phase's own training settings for those of `training` that were not typed."""
    section = {"2": "router_training", "3": "joint_training"}.get(resolved.config.phase)
    if section is None:
        return None
    values = {
        f"training.{field.name}": getattr(getattr(resolved.config, section), field.name)
        for field in fields(Training)
        if not is_typed(resolved.origins, f"training.{field.name}")
    }
    return SettingsLayer(origin=f"default of {section}", values=values)


resolve_task_router = Resolver(
    schema=TaskRouterConfig,
    aliases={
        **TEXT_ALIASES,
        "data.sst2_size": "data.sentiment_size",
        "data.squad_size": "data.questions_size",
        "data.mbpp_size": "data.code_size",
    },
    presets=PRESETS,
    efforts=EFFORTS,
    experiments=EXPERIMENTS,
    check=check_task_router,
    derived=_phase_training,
)
