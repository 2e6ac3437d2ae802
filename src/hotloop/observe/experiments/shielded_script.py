"""Runs a script in a process that changes no file of the user and reaches no other machine.

Where the system cannot show the script its own writes (observe/experiments/shield.py), a denied
write goes nowhere instead of raising, so that a script that opens its log before its first step
reaches that step.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.env import compile_cache
from hotloop.observe.experiments.shield import UnshieldedError, can_cover, shield
from hotloop.observe.whatif.without_one_cost import Patches
from hotloop.process import child

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["begin", "variables"]

_TEMPORARY: Final = "tmp"  # folder below the scratch folder for temporary files
_WRITING: Final = frozenset("wax+")
_OF_THE_SYSTEM: Final = ("/dev", "/proc", "/sys")  # not covered: they hold no files of the user


def variables(script: Sequence[str], cwd: Path) -> dict[str, str]:
    """Return environment variables: trackers are off, temporary files go to the scratch folder.

    What torch.compile has compiled before is read where the process can be shown its own writes.
    """
    temporary = f"{child.SCRATCH}/{_TEMPORARY}"
    seen = can_cover(_folders(script, cwd), network=False)
    own = {"TORCHINDUCTOR_CACHE_DIR": f"{temporary}/inductor"}
    own |= {"TRITON_CACHE_DIR": f"{temporary}/triton"}
    return {
        **({"TORCHINDUCTOR_CACHE_DIR": str(compile_cache())} if seen else own),
        "TMPDIR": temporary,
        # Without a network each would wait for its server. Sources (2026-11):
        # https://docs.wandb.ai/guides/track/environment-variables,
        # https://docs.neptune.ai/logging/modes,
        # https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
        "WANDB_MODE": "disabled",
        "MLFLOW_TRACKING_URI": f"file://{child.SCRATCH}/mlruns",
        "NEPTUNE_MODE": "debug",
        "HF_HUB_OFFLINE": "1",
    }


def begin(scratch: Path, script: Sequence[str]) -> None:
    """Shield this process, which has one thread, before the script runs in it.

    `script` is what follows `python`. Where the system cannot do it, the process ends with the
    reason.
    """
    (scratch / _TEMPORARY).mkdir(exist_ok=True)
    try:
        way = shield(scratch, _folders(script, Path.cwd()), network=False)
    except UnshieldedError as error:
        sys.exit(str(error))
    if way == "denied":
        _let_denied_writes_go_nowhere(Patches())


def _folders(script: Sequence[str], cwd: Path) -> list[Path]:
    """Return the folders that a script usually writes to, and those that its arguments name."""
    names = [word.partition("=")[2] or word for word in script]
    named = [Path(os.path.normpath(cwd / name)) for name in names if os.sep in name]
    nearest = [next(p for p in (path, *path.parents) if p.is_dir()) for path in named]
    theirs = [path for path in nearest if not str(path).startswith(_OF_THE_SYSTEM)]
    return [cwd, Path.home(), Path("/tmp"), *theirs]


def _let_denied_writes_go_nowhere(patches: Patches) -> None:
    """Open the null device in place of a file that may not be written; make no denied folder."""
    real_open, real_mkdir = builtins.open, os.mkdir
    unmade: set[str] = set()  # denied folders

    def is_denied(error: OSError, path: Any) -> bool:
        inside = os.path.dirname(os.path.abspath(os.fsdecode(path))) in unmade
        return isinstance(error, PermissionError) or inside

    @functools.wraps(real_open)
    def open_or_nowhere(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return real_open(file, mode, *args, **kwargs)
        except (PermissionError, FileNotFoundError) as error:
            if not _WRITING & set(mode) or isinstance(file, int) or not is_denied(error, file):
                raise
            return real_open(os.devnull, mode.replace("x", "w"), *args, **kwargs)

    @functools.wraps(real_mkdir)
    def make_or_not(path: Any, *args: Any, **kwargs: Any) -> None:
        try:
            real_mkdir(path, *args, **kwargs)
        except (PermissionError, FileNotFoundError) as error:
            if not is_denied(error, path):
                raise
            unmade.add(os.path.abspath(os.fsdecode(path)))

    patches.put(builtins, "open", open_or_nowhere)
    patches.put(io, "open", open_or_nowhere)  # what pathlib calls
    patches.put(os, "mkdir", make_or_not)
