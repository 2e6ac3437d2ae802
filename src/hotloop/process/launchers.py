"""Scripts that a launcher of torch starts in a process of their own."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["launched"]

_MODULE: Final = "torch.distributed.run"
_SCRIPT: Final = "torchrun"
_ONE: Final = ("1", "1:1")


def launched(command: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the arguments of `python` for the script that a launcher starts, and its environment.

    `command` comes back as it is, without an environment, if it names no launcher of torch, or one
    that starts several processes or cannot read its arguments.
    https://docs.pytorch.org/docs/stable/elastic/run.html (2026-12)
    """
    arguments = _arguments(command)
    if arguments is None:
        return tuple(command), {}
    from torch.distributed.run import get_args_parser

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its own complaint came before
            options = get_args_parser().parse_args(arguments)
    except SystemExit:
        return tuple(command), {}
    if str(options.nproc_per_node) not in _ONE or str(options.nnodes) not in _ONE:
        return tuple(command), {}
    if options.no_python:
        return tuple(command), {}
    script = (options.training_script, *options.training_script_args)
    return ("-m", *script) if options.module else script, {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "0",
        "ROLE_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
    }


def _arguments(command: Sequence[str]) -> list[str] | None:
    """Return the arguments of a launcher; None if the command names none."""
    if tuple(command[:2]) == ("-m", _MODULE):
        return list(command[2:])
    is_script = bool(command) and os.path.basename(command[0]) == _SCRIPT
    return list(command[1:]) if is_script else None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
