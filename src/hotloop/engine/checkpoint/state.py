"""Writes and restores a checkpoint: safetensors and JSON, nothing pickled, everything checked.

model.safetensors, optimizer.safetensors ("<parameter>/<state>"), rng.safetensors and state.json.
With several ranks each writes its part (checkpoint.tensors), and ranks above 0 state-r<rank>.json.
History of state.json: schema 1 (2026-11); then "ranks", if there are several; then "beside", on
what the run folder holds besides checkpoints.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from hotloop.core.errors import CheckpointError, ConfigError
from hotloop.core.storage.files import DISK, Disk, read_json
from hotloop.data.sampling.epoch_order import seed_of
from hotloop.engine.checkpoint.folders import STATE, path_of
from hotloop.engine.checkpoint.multi_rank_writer import write_together
from hotloop.engine.checkpoint.sharded_state import state_of, weights_of, whole
from hotloop.engine.checkpoint.tensor_file import HostCopies, in_order, tensor_chunks
from hotloop.engine.checkpoint.tensors import Parts, learned_by, mine, name_of
from hotloop.models.row_sharded import like, put
from hotloop.session.accumulation_windows import Position
from hotloop.session.ranks import SINGLE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from hotloop.session.ranks import ProcessGroup
    from hotloop.session.session import Session

__all__ = [
    "Identity",
    "Snapshot",
    "restore",
    "rng_state",
    "set_rng_state",
    "take",
    "write",
]

SCHEMA = 1
NEWER = {"best_score"}  # fields of a position that older checkpoints of this schema lack


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts in which a checkpoint and the run that loads it must be equal."""

    train_data: str
    validation_data: str
    batch_size: int  # samples of one optimizer step
    seed: int
    objective: str
    drop_last: bool


def rng_state(device: torch.device) -> dict[str, Tensor]:
    """Return the state of the generators that training draws from."""
    state = {"torch.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["torch.cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(device: torch.device, state: Mapping[str, Tensor]) -> None:
    """Restore the state of the generators."""
    torch.set_rng_state(state["torch.cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["torch.cuda"], device)


def _parameter_names(session: Session) -> list[str]:
    """Return the names of the optimizer's parameters in its own order."""
    assert session.optimizer is not None
    if session.parallel.sharded_optimizer is not None:
        return list(session.parallel.sharded_optimizer.names)
    names = {id(parameter): name for name, parameter in session.model.named_parameters()}
    groups = session.optimizer.param_groups
    return [names[id(parameter)] for group in groups for parameter in group["params"]]


def _optimizer_state(session: Session) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Return (tensors by name, the rest: scalars and the parameters that have no state)."""
    assert session.optimizer is not None
    names, state = _parameter_names(session), session.optimizer.state_dict()["state"]
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, object] = {}
    for index, values in state.items():
        for key, value in values.items():
            target = tensors if isinstance(value, torch.Tensor) else scalars
            target[f"{names[index]}/{key}"] = value
    without = [name for index, name in enumerate(names) if index not in state]
    return tensors, {"scalars": scalars, "without_state": without}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The content of a checkpoint. Its tensors are the session's own until they are copied."""

    step: int
    files: Mapping[str, Mapping[str, Tensor]]  # safetensors file of this rank -> tensors by name
    state: Mapping[str, object]  # state.json
    name: str = STATE  # of that file; ranks above 0 write their own
    buffers: frozenset[str] = frozenset()  # tensors that a forward pass may change: running means


def take(
    session: Session,
    position: Position,
    identity: Identity,
    *,
    validation_loss: float | None,
    beside: Mapping[str, object] = MappingProxyType({}),
) -> Snapshot:
    """Return the session's state at a position, without a copy; only this rank's part.

    `beside` describes the other files in the run folder, so that damage to them is noticed.
    """
    rank, world = session.parallel.group.rank, session.parallel.group.world
    weights, optimizer, rest = _written(session)
    files = {
        name_of("model", rank, world): weights,
        name_of("optimizer", rank, world): optimizer,
        name_of("rng", rank, world): rng_state(session.device),
    }
    state: dict[str, object] = {"schema": SCHEMA}
    if rank == 0:
        state |= {
            "saved_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "position": asdict(position),
            "identity": asdict(identity),
            "validation_loss": validation_loss,
            "micro_batch": session.micro_batch,
            "accumulation": session.accumulation,
            "optimizer": {"class": type(session.optimizer).__name__, **rest},
            "scaler": session.scaler.state_dict() if session.scaler else None,
        }
    state["choices"] = dict(session.choices())
    if session.stepping.decided:
        state["recorded"] = dict(session.stepping.decided)
    if rank == 0:
        state |= {} if world == 1 else {"ranks": world}
        state |= {"beside": dict(beside)} if beside else {}
    return Snapshot(
        step=position.step,
        files=files,
        state=state,
        name=_own(rank),
        buffers=frozenset(name for name, _ in session.model.named_buffers()),
    )


def _written(session: Session) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, object]]:
    """Return (weights, optimizer's tensors, rest of its state): what this rank writes."""
    group = session.parallel.group
    learned, rank, world = learned_by(session.model), group.rank, group.world
    if session.parallel.sharded_optimizer is not None:
        weights = weights_of(session, session.parallel.sharded_optimizer, learned)
        return weights, *state_of(session, session.parallel.sharded_optimizer)
    optimizer, rest = _optimizer_state(session)
    return mine(learned, rank, world), mine(optimizer, rank, world), rest


def _own(rank: int) -> str:
    """Return the name of the JSON file of a rank."""
    return f"state-r{rank}.json" if rank else STATE


def write(
    folder: Path, snapshot: Snapshot, *, disk: Disk = DISK, ranks: ProcessGroup = SINGLE_PROCESS
) -> int:
    """Write a snapshot durably and return its bytes; WriteError leaves older ones unchanged.

    With several ranks each writes its part, and the checkpoint exists once all have written.
    """
    text = json.dumps(snapshot.state, indent=1, allow_nan=False)
    parts = snapshot.files.values()
    copies = HostCopies(tensors[name] for tensors in parts for name in in_order(tensors))
    chunks = {name: tensor_chunks(tensors, copies) for name, tensors in snapshot.files.items()}
    files = {**chunks, snapshot.name: [text.encode()]}
    return write_together(path_of(folder, snapshot.step), files, disk=disk, ranks=ranks)


def _read(
    parts: Parts,
    tensors: Mapping[str, Tensor | None],
    want: Mapping[str, tuple[torch.Size, torch.dtype] | None],
) -> dict[str, Tensor]:
    """Return this rank's part of the tensors in a file; whole ones if not in `tensors`.

    `want` has the expected shape and dtype of each, or None. Raises CheckpointError that names
    missing and foreign keys, wrong shapes and dtypes, and non-finite tensors.
    """
    have, values = parts.layout, {}
    faults = [f"{name} is missing" for name in sorted(want.keys() - have.keys())]
    faults += [f"{name} belongs to nothing here" for name in sorted(have.keys() - want.keys())]
    for name in sorted(have.keys() & want.keys()):
        (shape, dtype), expected, tensor = have[name], want[name], tensors.get(name)
        if expected and (shape, dtype) != expected:
            faults.append(
                f"{name} is {dtype} {list(shape)}, expected {expected[1]} {list(expected[0])}"
            )
            continue
        value = parts.read(name) if tensor is None else parts.read_for(tensor, name)
        if value.is_floating_point() and not bool(value.isfinite().all()):
            faults.append(f"{name} holds values that are not finite")
        values[name] = value
    if faults:
        shown = "\n  ".join(faults[:20])
        raise CheckpointError(
            f"{parts.path} does not fit this run ({len(faults)} faults):\n  {shown}"
        )
    return values


def restore(folder: Path, session: Session, identity: Identity) -> Position:
    """Load a verified checkpoint into the session and return its position.

    Raises CheckpointError that names the keys that are missing, foreign, of another shape or not
    finite, and ConfigError with a diff if `identity` differs, such as in data or global batch.
    The session is left untouched unless everything fits.
    """
    with whole(session):
        return _restore(folder, session, identity)


def _restore(folder: Path, session: Session, identity: Identity) -> Position:
    state = _state(folder)
    _compare(folder, state["identity"], identity)
    learned, rank = learned_by(session.model), session.parallel.group.rank
    saved = int(state.get("ranks", 1))
    model = _read(Parts(folder, "model"), learned, _layout(learned))
    now = rng_state(session.device)
    rng = {}
    if rank < saved:
        file = name_of("rng", rank, saved).removesuffix(".safetensors")
        rng = _read(Parts(folder, file), {}, _layout(now))
    optimizer = _optimizer_to_load(folder, session, state["optimizer"])
    if session.scaler and not isinstance(state["scaler"], dict):
        raise CheckpointError(f"{folder} lacks the state of the fp16 loss scaler")
    position = Position(**state["position"])
    _load_optimizer(session, optimizer)
    if session.scaler:
        session.scaler.load_state_dict(state["scaler"])
    for name, value in model.items():  # without frozen parameters
        put(learned[name], value)
    if saved == session.parallel.group.world:
        session.micro_batch, session.accumulation = state["micro_batch"], state["accumulation"]
    own: Any = read_json(folder / _own(rank)) if 0 < rank < saved else state
    session.choices().update(own.get("choices", {}))
    session.stepping.decided.update(own.get("recorded", {}))
    if rng:
        set_rng_state(session.device, rng)
    else:
        seed_rank(identity.seed, rank, position.step)
    return position


def seed_rank(seed: int, rank: int, step: int) -> None:
    """Seed a random stream for a rank, from a step on, that has no saved one."""
    torch.manual_seed(seed_of(seed, step, rank))


def _layout(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype] | None]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


_KEYS = {"identity", "position", "optimizer", "scaler", "micro_batch", "accumulation"}
_OPTIMIZER_KEYS = {"class", "scalars", "without_state"}


def _state(folder: Path) -> dict[str, Any]:
    """Return state.json. Raises CheckpointError for missing keys or another schema."""
    state: dict[str, Any] = read_json(folder / STATE)
    if state.get("schema") != SCHEMA:
        raise CheckpointError(f"{folder} has schema {state.get('schema')}, not {SCHEMA}")
    missing = _KEYS - state.keys() or _OPTIMIZER_KEYS - state["optimizer"].keys()
    if missing:
        raise CheckpointError(f"{folder / STATE} lacks {', '.join(sorted(missing))}")
    names = {field.name for field in fields(Position)}
    if (have := state["position"].keys() | NEWER) != names:
        raise CheckpointError(
            f"{folder} has a position of {sorted(have)}, expected {sorted(names)}"
        )
    return state


def _compare(folder: Path, saved: object, mine: Identity) -> None:
    now = asdict(mine)
    saved = saved if isinstance(saved, dict) else {}
    changed = [f"{k}: run has {saved.get(k)}, now {now[k]}" for k in now if saved.get(k) != now[k]]
    if changed:
        raise ConfigError(
            f"{folder} is of another run:\n  " + "\n  ".join(changed) + "\n"
            "go on with the same data and global batch, or start a new run with init_from"
        )


def _load_optimizer(session: Session, states: dict[str, dict[str, Any]]) -> None:
    """Load the optimizer's state, by parameter and entry."""
    assert session.optimizer is not None
    if session.parallel.sharded_optimizer is not None:
        session.parallel.sharded_optimizer.load(states)
        return
    names = _parameter_names(session)
    state = {names.index(name): values for name, values in states.items()}
    groups = session.optimizer.state_dict()["param_groups"]
    session.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _optimizer_to_load(
    folder: Path, session: Session, about: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the optimizer's state of each parameter, after checking that everything fits."""
    assert session.optimizer is not None
    stored, names = Parts(folder, "optimizer"), _parameter_names(session)
    path, tensors = stored.path, stored.layout
    if about["class"] != type(session.optimizer).__name__:
        raise CheckpointError(
            f"{path} is the state of {about['class']}, "
            f"this run uses {type(session.optimizer).__name__}"
        )
    states: dict[str, dict[str, object]] = {}
    for key in (*tensors, *about["scalars"]):
        name, _, entry = key.rpartition("/")
        states.setdefault(name, {})[entry] = about["scalars"].get(key)
    with_state = set(names) - set(about["without_state"])
    entries = {entry for values in states.values() for entry in values}
    parameters = dict(session.model.named_parameters())
    want = {
        f"{name}/{entry}": None if entry == "step" else (parameters[name].shape, torch.float32)
        for name in with_state
        for entry in entries
        if f"{name}/{entry}" not in about["scalars"]
    }
    if not isinstance(session.optimizer, torch.optim.Adam):  # its state may have any shape
        want = {key: None for key in tensors if key.rpartition("/")[0] in with_state}
    missing = sorted(with_state - states.keys())
    if missing:
        raise CheckpointError(f"{path} lacks the state of: {', '.join(missing[:20])}")
    whose = {key: parameters.get(key.rpartition("/")[0]) for key in tensors}
    same = {k: p for k, p in whose.items() if p is not None and p.shape == tensors[k][0]}
    for key, value in _read(stored, same, want).items():
        name, _, entry = key.rpartition("/")
        states[name][entry] = like(parameters[name], value) if key in same else value
    # Laid out like the parameters, as fused kernels require.
    return states
