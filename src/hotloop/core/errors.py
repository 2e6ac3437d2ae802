"""Every error hotloop raises on purpose, with the exit code the command line gives it.

* HotloopError          70  base; raised bare only for our own bugs
  + UsageError           2  the command or the folder it names cannot be used like this
  + DivergedError        3  a loss or gradient is not finite, or the fp16 scale collapsed
  + DataError           65  the data cannot be trained on as they are
  + DeviceError         69  a device, feature or optional package is missing
  + WriteError          73  something that must be kept could not be written
  + CheckpointError     74  no checkpoint can be read
  + LostRankError       75  another process of the group is gone; the run can be resumed
  + ConfigError         78  a configuration value is unknown, contradictory or out of range
    + PlanError         78  a plan asks for a technique that cannot work here
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "DeviceError",
    "DivergedError",
    "HotloopError",
    "LostRankError",
    "PlanError",
    "UsageError",
    "WriteError",
    "did_you_mean",
]


class HotloopError(Exception):
    """Base of every error raised on purpose. The message says what to do."""

    exit_code: ClassVar[int] = 70
    is_told = False  # another process of the group reports it


class UsageError(HotloopError):
    """The command line, or a folder it names, cannot be used like this."""

    exit_code = 2


class DivergedError(HotloopError):
    """Training produced a loss or gradient that is not finite."""

    exit_code = 3


class DataError(HotloopError, ValueError):
    """The data cannot be trained on as they are."""

    exit_code = 65


class DeviceError(HotloopError):
    """A device, a feature of it, or an optional package is missing."""

    exit_code = 69


class WriteError(HotloopError):
    """Something that must be kept could not be written."""

    exit_code = 73


class CheckpointError(HotloopError):
    """No checkpoint can be read, or one does not fit the run."""

    exit_code = 74


class LostRankError(HotloopError):
    """Another process of the group is gone; what was saved can be resumed."""

    exit_code = 75


class ConfigError(HotloopError, ValueError):
    """A configuration value is unknown, contradictory or out of range."""

    exit_code = 78


class PlanError(ConfigError):
    """A plan asks for a technique that is unknown, contradictory or cannot work here."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return '; did you mean X?' for the nearest of `known`, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
