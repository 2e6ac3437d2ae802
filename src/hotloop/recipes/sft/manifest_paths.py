"""Resolves paths of a manifest: fills in placeholders, and keeps relative paths in its folder."""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from hotloop.config.schema import show
from hotloop.core.errors import ConfigError, did_you_mean
from hotloop.data.readers.hub_rows import is_hub_id

__all__ = [
    "OF_WINDOWS",
    "below",
    "expert_name",
    "fill",
    "is_of_hub",
    "is_of_windows",
    "placeholders",
]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # it becomes a folder's name
_BRACES = re.compile(r"\{([^{}]*)\}")
_KNOWN = ("expert-name", "model", "base-model")
OF_WINDOWS = "it is a path of Windows, and not of this system"
_REMEDY = "write a path below the manifest's folder, or a whole one"


def expert_name(text: str) -> str:
    """Return the name of an expert. Raises ConfigError if it is not a portable folder name."""
    if not _NAME.fullmatch(text) or text.endswith("."):
        raise ConfigError(
            f"{show(text)} cannot be an expert's name, which becomes a folder's: expected letters,"
            ' digits, _ . - and no . at the ends; write "name": "..." into the manifest'
        )
    return text


def placeholders(expert: str, model: str | None) -> dict[str, str]:
    """Return the values of {expert-name} and {model} (the expert) and of {base-model}.

    The last part of the base model's folder or hub id is its name.
    """
    names = {"expert-name": expert, "model": expert}
    last = re.split(r"[\\/]", (model or "").rstrip("\\/"))[-1]
    if base := re.sub(r"[^A-Za-z0-9_.-]", "-", last).strip("."):
        names["base-model"] = base
    return names


def fill(text: str, names: Mapping[str, str]) -> str:
    """Return a path with its placeholders filled in. Raises ConfigError for an unknown one."""

    def name(match: re.Match[str]) -> str:
        word = match[1].replace("_", "-")
        if word in names:
            return names[word]
        if word == "base-model":
            raise ConfigError(f"{match[0]} comes from the field model, which is missing: write it")
        meant = did_you_mean(word, _KNOWN) or f"; known: {', '.join(_KNOWN)}"
        raise ConfigError(f"unknown placeholder {show(match[0])}{meant}")

    filled = _BRACES.sub(name, text)
    if "{" in filled or "}" in filled:
        raise ConfigError("it has a { or } without its other half: remove it")
    return filled


def is_of_windows(text: str) -> bool:
    """Return whether a path has a drive or backslashes, and this system has none of them."""
    return os.sep != "\\" and ("\\" in text or bool(PureWindowsPath(text).drive))


def is_of_hub(folder: Path, text: str) -> bool:
    """Return whether a text that names rows is an id of the hub, not a file or folder here."""
    return "::" in text or (is_hub_id(text) and not (folder / text).exists())


def below(folder: Path, text: str) -> str:
    """Return an absolute path unchanged, and a relative path joined to the manifest's folder.

    Raises ConfigError for a path that leaves the folder by .., a link, a drive without its root, or
    ~. The text has no control characters.
    """
    if ".." in re.split(r"[\\/]", unquote(text)):
        raise ConfigError(f"it goes up with ..; {_REMEDY}")
    if Path(text).is_absolute():
        return text
    windows = PureWindowsPath(text)
    if windows.drive or windows.root or PurePosixPath(text).is_absolute():
        raise ConfigError(f"it is neither relative nor absolute on this system; {_REMEDY}")
    if is_of_windows(text):
        raise ConfigError(f"{OF_WINDOWS}; write / for \\")
    if text.startswith("~"):
        raise ConfigError(f"~ is not replaced; {_REMEDY}")
    path = folder / text
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError) as error:  # links in a circle; RuntimeError before Python 3.13
        raise ConfigError(f"it cannot be followed: {error}; {_REMEDY}") from error
    if not inside:
        raise ConfigError(f"it leads out of the manifest's folder by a link; {_REMEDY}")
    return str(path)
