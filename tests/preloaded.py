"""Not a test: a process that has imported torch, and forks what a test would start with Python.

Starting Python with torch takes seconds of a core, forking takes milliseconds. A child has its own
environment, folder and streams, and imports hotloop anew. It differs from `python -m hotloop` in
that torch is there before the first line: tests of what is imported, and when, must not use it.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from tests.paths import ROOT

__all__ = ["ForkedProcess", "Preloaded", "run_child"]

# torch._dynamo is imported by each optimizer of torch's, the others by hotloop.
MODULES = ("torch", "torch._dynamo", "torch.utils.flop_counter", "safetensors.torch", "psutil")
MODULES += ("rich.console", "rich.table", "xxhash", "yaml")


class Preloaded:
    """The process that forks. To be used in a `with`."""

    def __init__(
        self,
        *modules: str,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.modules = (*MODULES, *modules)
        self.python, self.env = python, env

    def __enter__(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = (self.python, "-m", "tests.preloaded", str(theirs.fileno()), *self.modules)
            subprocess.run(argv, cwd=ROOT, pass_fds=(theirs.fileno(),), check=True, env=self.env)
        return self

    def __exit__(self, *error):
        self._socket.close()  # it then ends

    def start(
        self,
        *words: object,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        module: str = "hotloop",
        streams: tuple[int, int, int] | None = None,
    ) -> "ForkedProcess":
        """Start `python -m module words`; without `streams` nothing is read and nothing shown."""
        request = {
            "argv": [module, *map(str, words)],
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
        }
        ours, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as said, open(os.devnull, "r+b") as null:
            said.write(json.dumps(request).encode())
            said.flush()
            handles = [said.fileno(), theirs.fileno(), *(streams or [null.fileno()] * 3)]
            socket.send_fds(self._socket, [b"."], handles)
        return ForkedProcess(ours)

    def run(
        self, *words: object, seconds: float = 240, **more: object
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; return its exit code and what it printed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with open(os.devnull, "rb") as null:
                streams = (null.fileno(), out.fileno(), err.fileno())
                process = self.start(*words, streams=streams, **more)
            try:
                code = process.wait(seconds)
            finally:
                process.kill()
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(
                words, code, out.read().decode(), err.read().decode()
            )


def run_child(preloaded: Preloaded, command, *, limits, cwd=None, environment=None):
    """Do what `process.child.run` does for `python -m hotloop`, with its limit of time alone."""
    from hotloop.process.child import Outcome  # not in the process that forks

    assert tuple(command[1:3]) == ("-m", "hotloop")
    ended = preloaded.run(
        *command[3:],
        cwd=Path.cwd() if cwd is None else cwd,
        env={**os.environ, **(environment or {})},
        seconds=limits.seconds,
    )
    ok = ended.returncode == 0
    return Outcome(
        status="ok" if ok else "failed",
        reason=None if ok else f"exit code {ended.returncode}",
        code=ended.returncode,
        stdout=ended.stdout,
        stderr=ended.stderr,
    )


class ForkedProcess:
    """One child; has the methods of `subprocess.Popen` that the tests need."""

    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        self._lines = line.makefile("r")
        self.pid = int(self._lines.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._socket], [], [], timeout)[0]:
                raise TimeoutError(f"process {self.pid} was not over within {timeout} s")
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._socket.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code once it is over."""
        with contextlib.suppress(TimeoutError):
            return self.wait(0.0)
        return None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, if it goes on, and wait for that."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def _serve(door: socket.socket) -> list[int]:
    """Fork for each request; return, in the child, its descriptors."""
    while True:
        said, files, *_ = socket.recv_fds(door, 16, 5)
        if not said:
            os._exit(0)  # torch takes seconds to leave
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            door.close()
            return _watched(files)
        for file in files:
            os.close(file)


def _watched(files: list[int]) -> list[int]:
    """Fork once more: this process tells the pid and the end of that one, which returns."""
    request, report, *streams = files
    pid = os.fork()
    if pid == 0:
        os.close(report)
        return [request, *streams]
    os.write(report, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: int, *streams: int) -> str:
    """Turn this process into the one that was asked for; return its module."""
    with open(request, "rb", closefd=True) as file:
        file.seek(0)
        asked = json.loads(file.read())
    for stream, handle in enumerate(streams):
        os.dup2(handle, stream)
    for handle in {*streams} - {0, 1, 2}:
        os.close(handle)
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.dont_write_bytecode = bool(asked["env"].get("PYTHONDONTWRITEBYTECODE"))
    os.chdir(asked["cwd"])
    sys.path[0] = asked["cwd"]
    sys.argv = asked["argv"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return asked["argv"][0]


def _leave(error: BaseException | None) -> None:
    """End this process as Python does, but free no object: of torch, that takes seconds."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(door: int, *modules: str) -> None:
    """Import the modules, then fork until nobody asks any more.

    It is no child of the tests, which look at their children.
    """
    if os.fork():
        os._exit(0)
    for name in modules:
        import_module(name)
    import_module("torch").set_num_threads(1)  # a thread pool does not survive a fork
    gc.collect()
    gc.freeze()  # the pages of what is imported stay shared
    module = _become(*_serve(socket.socket(fileno=door)))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException as error:  # noqa: BLE001 - it ends the process, with its words
        _leave(error)
    _leave(None)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
