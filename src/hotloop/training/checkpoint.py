"""Writing and restoring a checkpoint: safetensors and JSON, nothing pickled, all of it checked.

model.safetensors, optimizer.safetensors ("<parameter>/<state>"), rng.safetensors and state.json.
History of state.json: schema 1 (2026-11) first.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from hotloop.core.errors import CheckpointError, ConfigError
from hotloop.core.files import DISK, Disk, read_json, write_folder
from hotloop.training.feed import Position
from hotloop.training.store import STATE, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from hotloop.session import Session

__all__ = [
    "Identity",
    "Snapshot",
    "restore",
    "rng_state",
    "set_rng_state",
    "take",
    "tensor_chunks",
    "write",
]

SCHEMA = 1
NEWER = {"best_score"}  # fields of a position that older checkpoints of this schema lack
_INSIDE = "|"  # between a map of an optimizer's state and what is in it
_NAMES = {  # safetensors' names: https://github.com/huggingface/safetensors#format (2026-11)
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What must be equal for a checkpoint to be the same run's."""

    train_data: str
    validation_data: str
    batch_size: int  # samples of one optimizer step
    seed: int
    objective: str
    drop_last: bool


def tensor_chunks(tensors: Mapping[str, Tensor]) -> Iterator[memoryview | bytes]:
    """Yield a safetensors file piece by piece; one tensor at a time is copied from a card."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {}, 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().data


def rng_state(device: torch.device) -> dict[str, Tensor]:
    """Return the state of the generators that training draws from."""
    state = {"torch.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["torch.cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(device: torch.device, state: Mapping[str, Tensor]) -> None:
    """Put the generators back."""
    torch.set_rng_state(state["torch.cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["torch.cuda"], device)


def _parameter_names(session: Session) -> list[str]:
    """Return the names of the optimizer's parameters in its own order."""
    assert session.optimizer is not None
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
        for key, value in _flat(values).items():
            target = tensors if isinstance(value, torch.Tensor) else scalars
            target[f"{names[index]}/{key}"] = value
    without = [name for index, name in enumerate(names) if index not in state]
    return tensors, {"scalars": scalars, "without_state": without}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter's state without maps in it, as bitsandbytes has one."""
    inner = {
        f"{k}{_INSIDE}{i}": x
        for k, v in values.items()
        if isinstance(v, dict)
        for i, x in v.items()
    }
    return {**{k: v for k, v in values.items() if not isinstance(v, dict)}, **inner}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `_flat` made flat."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        outer, sign, name = key.partition(_INSIDE)
        if sign:
            found.setdefault(outer, {})[name] = value
        else:
            found[key] = value
    return found


def _learned(model: nn.Module) -> dict[str, Tensor]:
    """Return what training changes: all of a model's state but the parameters that are frozen.

    Those can be read where they came from; they may be a hundred times as large.
    """
    state: dict[str, Tensor] = model.state_dict()
    parameters = dict(model.named_parameters())
    if all(parameter.requires_grad for parameter in parameters.values()):
        return state
    changes = {name for name, parameter in parameters.items() if parameter.requires_grad}
    changes.update(name for name, _ in model.named_buffers())  # running means, say
    return {name: tensor for name, tensor in state.items() if name in changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a checkpoint holds. The tensors are the living ones until somebody copies them."""

    step: int
    files: Mapping[str, Mapping[str, Tensor]]  # safetensors file -> tensors by name
    state: Mapping[str, object]  # state.json


def take(
    session: Session, at: Position, identity: Identity, *, validation_loss: float | None
) -> Snapshot:
    """Return the session's state at a position, without a copy."""
    optimizer, rest = _optimizer_state(session)
    return Snapshot(
        step=at.step,
        files={
            "model.safetensors": _learned(session.model),
            "optimizer.safetensors": optimizer,
            "rng.safetensors": rng_state(session.device),
        },
        state={
            "schema": SCHEMA,
            "saved_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "position": asdict(at),
            "identity": asdict(identity),
            "validation_loss": validation_loss,
            "micro_batch": session.micro_batch,
            "accumulation": session.accumulation,
            "optimizer": {"class": type(session.optimizer).__name__, **rest},
            "scaler": session.scaler.state_dict() if session.scaler else None,
            "choices": dict(session.choices()),
        },
    )


def write(folder: Path, snapshot: Snapshot, *, disk: Disk = DISK) -> int:
    """Write a snapshot durably and return its bytes; WriteError leaves older ones as they are."""
    text = json.dumps(snapshot.state, indent=1, allow_nan=False)
    chunks = {name: tensor_chunks(tensors) for name, tensors in snapshot.files.items()}
    manifest = write_folder(
        path_of(folder, snapshot.step), {**chunks, STATE: [text.encode()]}, disk=disk
    )
    files = manifest["files"]
    assert isinstance(files, dict)
    return sum(entry["bytes"] for entry in files.values())


def _load(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _refuse_misfits(
    path: Path,
    have: Mapping[str, Tensor],
    want: Mapping[str, tuple[torch.Size, torch.dtype] | None],
) -> None:
    """Raise CheckpointError naming missing and foreign keys, shapes, dtypes and non-finite ones."""
    faults = [f"{name} is missing" for name in sorted(want.keys() - have.keys())]
    faults += [f"{name} belongs to nothing here" for name in sorted(have.keys() - want.keys())]
    for name in sorted(have.keys() & want.keys()):
        tensor, expected = have[name], want[name]
        if expected and (tensor.shape, tensor.dtype) != expected:
            faults.append(
                f"{name} is {tensor.dtype} {list(tensor.shape)}, "
                f"expected {expected[1]} {list(expected[0])}"
            )
        elif tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            faults.append(f"{name} holds values that are not finite")
    if faults:
        shown = "\n  ".join(faults[:20])
        raise CheckpointError(f"{path} does not fit this run ({len(faults)} faults):\n  {shown}")


def restore(folder: Path, session: Session, identity: Identity) -> Position:
    """Load a verified checkpoint into the session and return its position.

    Raises CheckpointError naming the keys that are missing, foreign, of another shape or not
    finite, and ConfigError with a diff when it belongs to other data or another global batch.
    The session is left untouched unless everything fits.
    """
    state = _state(folder)
    _compare(folder, state["identity"], identity)
    model = _load(folder / "model.safetensors")
    rng = _load(folder / "rng.safetensors")
    _refuse_misfits(folder / "model.safetensors", model, _layout(_learned(session.model)))
    _refuse_misfits(folder / "rng.safetensors", rng, _layout(rng_state(session.device)))
    optimizer = _optimizer_to_load(folder, session, state["optimizer"])
    if session.scaler and not isinstance(state["scaler"], dict):
        raise CheckpointError(f"{folder} lacks the state of the fp16 loss scaler")
    position = Position(**state["position"])
    assert session.optimizer is not None
    session.optimizer.load_state_dict(optimizer)
    if session.scaler:
        session.scaler.load_state_dict(state["scaler"])
    session.model.load_state_dict(model, strict=False)  # what is frozen is not in it
    session.micro_batch, session.accumulation = state["micro_batch"], state["accumulation"]
    session.choices().update(state.get("choices", {}))
    set_rng_state(session.device, rng)
    return position


def _layout(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype] | None]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


_KEYS = {"identity", "position", "optimizer", "scaler", "micro_batch", "accumulation"}
_OPTIMIZER_KEYS = {"class", "scalars", "without_state"}


def _state(folder: Path) -> dict[str, Any]:
    """Return state.json; CheckpointError names what is missing or of another schema."""
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


def _optimizer_to_load(folder: Path, session: Session, about: dict[str, Any]) -> dict[str, Any]:
    """Return what the optimizer's load_state_dict takes, once everything fits."""
    assert session.optimizer is not None
    path, names = folder / "optimizer.safetensors", _parameter_names(session)
    tensors = _load(path)
    if about["class"] != type(session.optimizer).__name__:
        raise CheckpointError(
            f"{path} is the state of {about['class']}, "
            f"this run uses {type(session.optimizer).__name__}"
        )
    states: dict[str, dict[str, object]] = {}
    for key, value in {**tensors, **about["scalars"]}.items():
        name, _, entry = key.rpartition("/")
        states.setdefault(name, {})[entry] = value
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
    _refuse_misfits(path, tensors, want)
    return {
        "state": {
            names.index(name): _nested(
                {k: _laid_out(v, parameters[name]) for k, v in values.items()}
            )
            for name, values in states.items()
        },
        "param_groups": session.optimizer.state_dict()["param_groups"],
    }


def _laid_out(value: object, parameter: Tensor) -> object:
    """Return a state with its parameter's strides: fused kernels walk through both side by side."""
    if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
        return value
    return torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)
