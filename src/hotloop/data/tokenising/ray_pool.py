"""Turn files into tokens on a Ray cluster; the workers' results come back in order.

A separate process drives Ray (hotloop.data.tokenising.ray_job): Ray's output, warnings and changes
to its process stay there, and that process ends what it started even if this process is killed.
"""

from __future__ import annotations

import importlib.util
import secrets
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from hotloop.core.env import inherited
from hotloop.core.errors import ConfigError, DataError, DeviceError, HotloopError
from hotloop.core.package import __version__
from hotloop.data.readers.portions import Portion
from hotloop.data.tokenising.pipe_protocol import THREADS, Child
from hotloop.data.tokenising.worker_process import result

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.tokenize_portion import Setup, Turned

__all__ = ["Cluster", "Gives", "in_order", "must_be_usable"]

_ANSWER: Final = 10.0  # seconds for a cluster to answer
_PATIENCE: Final = 25.0  # seconds for a cluster to end by itself
_LAST: Final = 2000  # last characters of Ray's output that are shown if it ends unexpectedly


def must_be_usable(*, address: str | None, processes: int | None) -> None:
    """Raise DeviceError if Ray Data is missing or no cluster answers, ConfigError for bad options.

    `address` is HOST:PORT or auto, which Ray resolves; None to start a cluster.
    """
    missing = [name for name in ("ray", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(
            f"--engine ray needs {' and '.join(missing)}, which cannot be found here: "
            "pip install 'hotloop[ray]'"
        )
    if processes == 0:
        raise ConfigError("--engine ray needs workers: --processes 1 or more, or leave it out")
    if address in (None, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        raise ConfigError(f"the address of Ray {address!r} is none: expected HOST:PORT or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:  # Ray itself would wait for minutes
        raise DeviceError(
            f"no Ray cluster answers at {address} ({error}): see that it runs and that this "
            "machine reaches it; --ray-address local starts one here"
        ) from error


class Cluster:
    """A Ray cluster, reached or started when it is first needed. Must be closed.

    Without an `address`, a cluster of `workers` is started, and ended by `close`; else the one at
    the address is used, with `workers` or as many as it has cores.
    """

    def __init__(self, *, address: str | None, workers: int | None) -> None:
        self._address, self._workers = address, workers
        self._driver: _Driver | None = None

    def turned(
        self, sources: Sequence[RecordFile], setup: Setup, *, skip: int, size: int
    ) -> Generator[tuple[Portion, Turned]]:
        """Yield each portion of files, in order and without its data, with its result.

        The first `skip` portions of the first file are skipped; `size` is that of `work`. Work of a
        lost worker is done again by another one. Unlike `worker_pool.turned`, portions after a bad
        row are turned, too. Raises DeviceError if there is no cluster, DataError if a file cannot
        be read where a worker runs, or if workers end again and again.
        """
        self._driver = self._driver or _Driver(self._address)
        self._driver.ask(
            {
                "address": self._address,
                "workers": self._workers,
                "setup": setup.plain(),
                "size": size,
                "skip": skip,
                "sources": [_plain(source) for source in sources],
                "versions": _versions(setup),
            }
        )
        yield from in_order(self._driver, sources, skip)

    def close(self) -> None:
        """End everything that was started."""
        if self._driver is not None:
            self._driver.close()


def _plain(source: RecordFile) -> dict[str, Any]:
    # A worker may run elsewhere, and in another folder.
    beside = [str(path.absolute()) for path in source.beside]
    return {**asdict(source), "path": str(source.path.absolute()), "beside": beside}


def _versions(setup: Setup) -> dict[str, str]:
    """Return the versions that must be the same on all nodes for the same tokens."""
    return {"hotloop": __version__, setup.backend: version(setup.backend)}


class Gives(Protocol):
    """A source of workers' messages."""

    def take(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message."""


def in_order(
    driver: Gives, sources: Sequence[RecordFile], skip: int
) -> Generator[tuple[Portion, Turned]]:
    """Yield the workers' results; check that all come, once and in order.

    Raises HotloopError if they do not or a worker failed, DataError for a result that reports one.
    """
    for number, source in enumerate(sources):
        expected = skip if number == 0 else 0
        while True:
            head, buffers = driver.take()
            if head["at"] != [number, expected]:
                raise HotloopError(
                    f"Ray gave portion {head['at']} where {[number, expected]} of {source.name} "
                    "was due: nothing of it was written; please report it"
                )
            if "ended" in head:
                break
            if "failed" in head:
                print(head["failed"], file=sys.stderr)
            turned_portion = result(head, buffers)
            portion = Portion(
                file=str(source.path),
                name=source.name,
                format=source.format,
                documents=source.documents,
                offset=head["offset"],
            )
            yield portion, turned_portion
            expected += 1


class _Driver:
    """The process that drives Ray."""

    def __init__(self, address: str | None) -> None:
        environment = {} if address else _private()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._child = Child(
            "ray_job",
            stderr=self._stderr,
            env=inherited(**THREADS, **environment),
            start_new_session=True,  # Ctrl-C is this process's to answer
        )

    def ask(self, request: dict[str, Any]) -> None:
        """Send a job."""
        with suppress(BrokenPipeError):  # `take` reports it
            self._child.send(request)

    def take(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message of a worker; raises for errors of Ray."""
        message = self._child.receive()
        if message is None:
            raise self._gone()
        head = message[0]
        if "absent" in head:
            raise DeviceError(head["absent"])
        if "lost" in head:
            raise DataError(
                f"Ray could not go on: {head['lost']}; what was written stays, and the same "
                "command goes on from there, with --engine ray or without; where memory is short, "
                "--processes with a lower number needs less"
            )
        return message

    def _gone(self) -> DataError:
        return DataError(
            f"the process that drives Ray ended {self._child.ended()}: what was written stays, and "
            f"the same command goes on from there{_last_of(self._stderr)}"
        )

    def close(self) -> None:
        """End the process, and the cluster that it started."""
        self._child.close_pipes()
        try:
            self._child.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            print("hotloop: Ray does not end by itself and is killed", file=sys.stderr)
        finally:
            self._child.process.kill()
            self._child.process.wait()
            self._stderr.close()


def _private() -> dict[str, str]:
    """Return the environment of a private cluster: it listens on ports, so it needs a token.

    The token is not left in the home folder, as Ray does by default. Nothing is reported to Ray's
    makers: https://docs.ray.io/en/latest/cluster/usage-stats.html (2026-11)
    """
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _last_of(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    text = stderr.read().decode(errors="replace").strip()[-_LAST:]
    return f"; it said:\n{text}" if text else ""
