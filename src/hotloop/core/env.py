"""The only place that reads the environment, once at import, or changes it, for children."""

import json
import os
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hotloop.core.errors import ConfigError
from hotloop.core.package import ROOT

__all__ = [
    "ENV",
    "Environment",
    "Parent",
    "compile_cache",
    "forget_children",
    "inherited",
    "named",
    "observe_children",
]

_NO_NAME = r'[\\/:*?"<>|]'  # characters that a file name may not hold somewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What an observed script passes to its child processes."""

    folder: Path  # where they write their cases
    limits: Mapping[str, float | bool | None]  # steps, seconds, full: as in StopLimits
    plan: Mapping[str, object] | None = None  # techniques to apply in them, a plan's JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The settings that hotloop reads from the environment."""

    cache: Path  # tokenised data and measurements; everything in it can be rebuilt
    hub: Path  # where huggingface_hub keeps its downloads
    datasets: Path  # where Hugging Face's datasets keeps its Arrow files
    no_color: bool
    rank: int  # torchrun's RANK; 0 for a single process
    world: int  # torchrun's WORLD_SIZE
    local_rank: int = 0  # torchrun's LOCAL_RANK: on this machine
    local_world: int = 1  # torchrun's LOCAL_WORLD_SIZE: processes on this machine
    torchrun: bool = False  # TORCHELASTIC_RUN_ID is set: torchrun started this process
    restarts: int = 0  # torchrun's TORCHELASTIC_RESTART_COUNT: restarts of the group
    ray: str | None = None  # RAY_ADDRESS: the cluster that Ray's own commands use
    fault: str | None = None  # HOTLOOP_FAULT, for tests: what must fail
    parent: Parent | None = None  # HOTLOOP_PARENT: this is a child of an observed script

    @classmethod
    def read(cls, values: Mapping[str, str]) -> "Environment":
        """Read the variables in `values`; an empty one counts as absent. Raises ConfigError."""
        rank, world = _whole(values, "RANK", 0), _whole(values, "WORLD_SIZE", 1)
        if not 0 <= rank < world:
            raise ConfigError(
                f"RANK={rank} and WORLD_SIZE={world} do not go together: start with torchrun, "
                "or unset both"
            )
        local_rank = _whole(values, "LOCAL_RANK", 0)
        no_color = bool(values.get("NO_COLOR"))  # https://no-color.org (2026-11)
        hugging = _hugging_face(values)
        return cls(
            cache=_cache(values),
            hub=_folder(values, "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") or hugging / "hub",
            datasets=_folder(values, "HF_DATASETS_CACHE") or hugging / "datasets",
            no_color=no_color,
            rank=rank,
            world=world,
            local_rank=local_rank,
            local_world=_whole(values, "LOCAL_WORLD_SIZE", local_rank + 1),
            torchrun=bool(values.get("TORCHELASTIC_RUN_ID")),
            restarts=_whole(values, "TORCHELASTIC_RESTART_COUNT", 0),
            ray=values.get("RAY_ADDRESS") or None,
            fault=values.get("HOTLOOP_FAULT") or None,
            parent=_parent(values.get("HOTLOOP_PARENT")),
        )


def _whole(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name) or str(default)
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{name} must be a whole number, not {text!r}: unset it") from error


def _cache(values: Mapping[str, str]) -> Path:
    """Return the absolute path of the cache folder, by the XDG base directory specification.

    It says to ignore a relative XDG_CACHE_HOME:
    https://specifications.freedesktop.org/basedir-spec/latest/ (2026-11)
    """
    own, shared = values.get("HOTLOOP_CACHE"), values.get("XDG_CACHE_HOME")
    try:
        if own:
            return Path(own).expanduser().absolute()
        if shared and os.path.isabs(shared):
            return Path(shared) / "hotloop"
        return Path.home() / ".cache" / "hotloop"
    except RuntimeError as error:  # a container's user without an entry in /etc/passwd
        raise ConfigError(
            f"{error} Set HOTLOOP_CACHE to a folder that can be written "
            "(hotloop explain cache-not-found)"
        ) from error


def _hugging_face(values: Mapping[str, str]) -> Path:
    """Return the folder of Hugging Face's libraries.

    https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables (2026-11)
    """
    shared = _folder(values, "XDG_CACHE_HOME") or Path(os.path.expanduser("~/.cache"))
    return _folder(values, "HF_HOME") or shared / "huggingface"


def _folder(values: Mapping[str, str], *names: str) -> Path | None:
    """Return the folder in the first set variable of `names`, with ~ and $NAME expanded."""
    text = next((values[name] for name in names if values.get(name)), None)
    if text is None:
        return None
    filled = string.Template(text).safe_substitute(values)  # expandvars reads the environment
    return Path(os.path.expanduser(filled)).absolute()


def _parent(text: str | None) -> Parent | None:
    if not text:
        return None
    try:
        content = json.loads(text)
        return Parent(
            folder=Path(content["folder"]), limits=dict(content["limits"]), plan=content.get("plan")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"HOTLOOP_PARENT is hotloop's own and damaged: unset it ({error})"
        ) from error


def observe_children(
    folder: Path,
    limits: Mapping[str, float | bool | None],
    plan: Mapping[str, object] | None = None,
) -> None:
    """Make Python processes that this one starts write their cases into `folder`.

    This changes the environment, which children inherit however they are started.
    """
    ahead = str(ROOT / "children")
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = ahead + (os.pathsep + old if old else "")
    os.environ["HOTLOOP_PARENT"] = json.dumps(
        {"folder": str(folder), "limits": dict(limits), "plan": plan}
    )


def compile_cache() -> Path:
    """Return the cache folder of torch.compile, by torch's own rule (torch 2.13)."""
    own = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if own is not None:
        return Path(own).absolute()
    import getpass  # here: hotloop --help needs neither
    import tempfile

    try:
        user = getpass.getuser()
    except (KeyError, ImportError, OSError):  # a container's user without an entry in /etc/passwd
        user = f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"
    return Path(tempfile.gettempdir()) / f"torchinductor_{re.sub(_NO_NAME, '_', user)}"


def named(names: Iterable[str]) -> dict[str, str]:
    """Return the variables in `names` that are set in the environment now, with their values."""
    return {name: os.environ[name] for name in names if name in os.environ}


ENV = Environment.read(os.environ)


def forget_children() -> None:
    """Undo `observe_children`, because later children do not belong to the script."""
    ahead = str(ROOT / "children")
    rest = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path != ahead]
    os.environ.pop("HOTLOOP_PARENT", None)
    os.environ.pop("PYTHONPATH", None)
    if any(rest):
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)


def inherited(**more: str) -> dict[str, str]:
    """Return the environment for a child process: that of this process now, with `more`."""
    return {**os.environ, **more}
