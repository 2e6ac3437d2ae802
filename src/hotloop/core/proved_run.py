"""The run that a plan was proved for: the script, its code, its arguments and its data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.digest import digest
from hotloop.core.secrets import redacted
from hotloop.core.units import many

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["data_identity", "other_data", "other_run", "run_identity"]

_AND = " and "
_HOLDS = (
    "Each technique is still applied only where it can be, and its effect is checked; the gain and "
    "the equal losses were shown for that run only, and hotloop tune can show them for this one"
)


def run_identity(command: Sequence[str], cwd: Path) -> dict[str, str]:
    """Return what identifies a run of `command`, the words that follow `python`.

    Of an argument that names a place only that is kept, as runs write into folders of their own.
    """
    is_module = command[0] == "-m"
    script, *words = command[1:] if is_module else command
    found = {
        "script": Path(script).name,
        "arguments": " ".join(redacted([_kept(word, cwd) for word in words])),
    }
    file = cwd / script
    if not is_module and file.is_file():
        found["code"] = digest(file.read_bytes())[:12]
    return found


def _kept(word: str, cwd: Path) -> str:
    name, is_pair, value = word.partition("=")
    if is_pair and name.startswith("-"):
        return f"{name}={_kept(value, cwd)}"
    return "PATH" if os.sep in word or (cwd / word).exists() else word


def other_run(proved: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """Return in what this run differs from the one that a plan was proved for, and what holds."""
    differ = []
    if proved.get("script") != here.get("script"):
        differ.append(f"for {proved.get('script')}, not for {here.get('script')}")
    elif proved.get("code") != here.get("code"):
        differ.append(f"for another state of {here.get('script')}")
    if proved.get("arguments") != here.get("arguments"):
        old, new = (each.get("arguments") or "none" for each in (proved, here))
        differ.append(f"with the arguments {old}, not {new}")
    if not differ:
        return None
    return f"the plan was proved {' and '.join(differ)}. {_HOLDS}"


def data_identity(loaders: Iterable[tuple[str, int | None]]) -> str:
    """Return what identifies the data of a run: the type and the samples of each data set."""
    described = (
        f"{name} of {many(samples, 'sample')}" if samples is not None else f"a stream of {name}"
        for name, samples in loaders
    )
    return _AND.join(dict.fromkeys(described))


def other_data(proved: Mapping[str, str], here: str) -> str | None:
    """Return that a loader reads other data than those that a plan was proved on, or None.

    `here` is the `data_identity` of one loader.
    """
    known = proved.get("data")
    if not known or here in known.split(_AND):
        return None
    return f"the plan was proved on {known}, not on {here}. {_HOLDS}"
