"""Runs a child process within hard limits and returns, as a value, how it ended.

Wall time, memory and output are limited for the whole process tree. The tree is killed when it
exceeds a limit, on Ctrl-C, when this process dies in any way, and when the child itself has ended,
so that no process stays behind. process/supervisor.py enforces this from another process.
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import psutil

from hotloop.core.env import inherited
from hotloop.core.errors import ConfigError
from hotloop.core.package import ROOT
from hotloop.process import supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotloop.process.fork_server import ForkServer

__all__ = [
    "RESULT",
    "SCRATCH",
    "Beat",
    "Outcome",
    "ProcessLimits",
    "Running",
    "killed_by",
    "quiet",
    "run",
]

SCRATCH: Final = supervisor.SCRATCH  # in an argument or variable: a folder that is removed later
RESULT: Final = f"{SCRATCH}/result.json"  # as an argument: where the child writes its result
MARK: Final = "HOTLOOP_WATCHED"  # a variable that a child and all its descendants share

Status = Literal["ok", "failed", "timeout", "over memory", "over output", "killed", "interrupted"]

_PATHS: Final = [str(ROOT.parent), str(Path(psutil.__file__).parents[1])]
_SUPERVISOR: Final = (  # -I -S: no user code runs in it, and it starts in half the time
    *(sys.executable, "-I", "-S", "-c"),
    f"import sys; sys.path += {_PATHS!r}; from hotloop.process.supervisor import main; main()",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What a child and all its descendants may use together."""

    seconds: float  # wall time
    memory: int | None = None  # resident bytes; shared pages count once if known
    output: int = 64 * 1024**2  # bytes of stdout and stderr together

    def __post_init__(self) -> None:
        if not self.seconds > 0 or self.output < 0 or (self.memory is not None and self.memory < 1):
            raise ConfigError(f"limits of a child process must be positive, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A periodic sign of life of a running child."""

    seconds: float  # since its start
    rss_bytes: int  # of its tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a child ended."""

    status: Status
    reason: str | None = None  # why it is not ok: a sentence without a full stop
    code: int | None = None  # exit code; None: killed or never started
    signal: int | None = None  # the signal that killed it, if hotloop did not send it
    seconds: float = 0.0  # wall time
    stdout: str = ""  # the end of it
    stderr: str = ""
    result: Mapping[str, Any] | None = None  # its result, also if it failed later

    @property
    def ok(self) -> bool:
        """Whether it succeeded, with a result if one was requested."""
        return self.status == "ok"


def quiet() -> dict[str, str]:
    """Return variables by which a script that runs again tells no tracker's server of it."""
    mode = inherited().get("WANDB_MODE", "online")
    wandb = "disabled" if mode in ("disabled", "dryrun") else "offline"
    return {"HOTLOOP_CHILD": "1", "WANDB_MODE": wandb, "WANDB_DIR": SCRATCH}


def run(
    command: Sequence[str],
    *,
    limits: ProcessLimits,
    cwd: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[Beat], None] | None = None,
) -> Outcome:
    """Run `command` to its end or its limits; `environment` is added to that of this process.

    A command with the argument RESULT must write one JSON object to that path; otherwise the
    outcome is "failed". Ctrl-C gives "interrupted" once the tree is dead; the caller decides
    whether to go on. An exception from `progress` passes through, also once the tree is dead.
    Raises no error for anything a child does.
    """
    return Running(command, limits=limits, cwd=cwd, environment=environment).wait(progress)


class Running:
    """A child that runs in the background. `wait` must be called once."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        limits: ProcessLimits,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        channel: int | None = None,
        server: ForkServer | None = None,
    ) -> None:
        """Start the child. It inherits the file descriptor `channel` under the same number.

        A `server` forks it where it can.
        """
        arguments = list(map(str, command))
        self._limits = limits
        self._expects_result = any(RESULT in argument for argument in arguments)
        spec = {
            "command": arguments,
            "cwd": None if cwd is None else str(cwd),
            "environment": inherited(**{**(environment or {}), MARK: secrets.token_hex(8)}),
            "seconds": limits.seconds,
            "memory": limits.memory,
            "output": limits.output,
            "channel": channel,
        }
        self._supervisor = _Supervisor(spec, server)

    def wait(self, progress: Callable[[Beat], None] | None = None) -> Outcome:
        """Wait for its end and return how it ended; see `run`."""
        with self._supervisor as watching:
            try:
                end = watching.follow(progress)
            except KeyboardInterrupt:
                end = watching.stop()
            except BaseException:
                watching.stop()
                raise
        return _outcome(end, self._limits, expects_result=self._expects_result)

    def stop(self) -> None:
        """Have its tree killed; `wait` then returns "interrupted". Any thread may call it."""
        self._supervisor.close()


class _Supervisor:
    """The connection to the supervisor process."""

    def __init__(self, spec: dict[str, Any], server: ForkServer | None) -> None:
        forked = None if server is None else server.supervisor(spec, _is_own)
        self._process = forked or subprocess.Popen(
            _SUPERVISOR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C at the terminal reaches only this process
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            pass_fds=() if spec["channel"] is None else (spec["channel"],),
        )
        assert self._process.stdin
        assert self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        self._scratch: str | None = None
        self._mark: str = spec["environment"][MARK]
        self._tree: list[tuple[int, float]] = []
        with contextlib.suppress(BrokenPipeError):  # `follow` notices that the supervisor is gone
            self._to.write(json.dumps(spec).encode() + b"\n")
            self._to.flush()

    def __enter__(self) -> _Supervisor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._from.close()
        self._process.wait()

    def follow(self, progress: Callable[[Beat], None] | None) -> dict[str, Any]:
        """Pass on the beats; return the supervisor's account of the end."""
        for line in self._from:
            message = json.loads(line)
            if "end" in message:
                return dict(message["end"])
            self._scratch = message.get("scratch", self._scratch)
            if "beat" in message:
                seconds, rss, self._tree = message["beat"]
                if progress:
                    progress(Beat(seconds=seconds, rss_bytes=rss))
        return self._lost()

    def stop(self) -> dict[str, Any]:
        """Have the tree killed; return the account of the end."""
        self.close()
        return self.follow(None)

    def close(self) -> None:
        """Tell the supervisor to end the tree."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()

    def _lost(self) -> dict[str, Any]:
        """Clean up in place of a supervisor that was killed.

        Kill the pids that it reported and all marked processes: some started after its last report.
        """
        for pid, born in self._tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if abs(process.create_time() - born) < 2:  # s; else another process has the pid
                    supervisor.kill([process])
        supervisor.kill(_marked(self._mark))
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return {"unknown": "the process that watched it was killed"}


def _is_own(name: str, value: str) -> bool:
    """Whether a variable differs from child to child."""
    return name == MARK or SCRATCH in value


def _marked(mark: str) -> Iterator[psutil.Process]:
    """Yield the processes that were started with this mark in their environment."""
    for process in psutil.process_iter(["environ"]):
        if (process.info["environ"] or {}).get(MARK) == mark:  # None: not readable
            yield process


def _outcome(end: dict[str, Any], limits: ProcessLimits, *, expects_result: bool) -> Outcome:
    """Turn the supervisor's account into an Outcome."""
    if "unknown" in end:
        return Outcome(status="failed", reason=end["unknown"])
    code, result, fault = end["code"], None, end.get("fault")
    if fault is None:
        result, fault = _parsed(end["result"])
    status, reason = _judged(end, limits)
    if status == "ok" and expects_result and result is None:
        status, reason = "failed", f"its result {fault}" if fault else "it handed back no result"
    if end["left"]:
        reason = f"{reason or 'it ended'}; processes {end['left']} could not be killed"
    return Outcome(
        status=status,
        reason=reason,
        code=code if end["cause"] is None and code >= 0 else None,
        signal=-code if status == "killed" else None,
        seconds=end["seconds"],
        stdout=end["stdout"],
        stderr=end["stderr"],
        result=result,
    )


def _judged(end: dict[str, Any], limits: ProcessLimits) -> tuple[Status, str | None]:
    """Return the status of the child, and why it is not "ok"."""
    match end["cause"], end["code"]:
        case "timeout", _:
            return "timeout", f"it was not done within {limits.seconds:g} s"
        case "over memory", _:
            return "over memory", f"it needed more than the {_size(limits.memory)} allowed"
        case "over output", _:
            return "over output", f"it printed more than the {_size(limits.output)} allowed"
        case "interrupted", _:
            return "interrupted", "it was interrupted"
        case _, 0:
            return "ok", None
        case _, code if code < 0:
            return "killed", f"it was {killed_by(-code)}"
    last = end["stderr"].strip().rpartition("\n")[2]
    return "failed", f"exit code {end['code']}" + (f": {last:.300}" if last else "")


def killed_by(number: int) -> str:
    """Describe the end of a process that a signal killed."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    hint = "; was memory short?" if name == "SIGKILL" else ""
    return f"killed by {name}, which hotloop did not send{hint}"


def _size(size: int | None) -> str:
    return f"{(size or 0) / 1024**2:,.4g} MiB"


def _parsed(text: str | None) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the result a child wrote, or what is wrong with it."""
    if text is None:
        return None, None
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return None, f"is not JSON ({error}): {text[:80]!r}"
    if not isinstance(value, dict):
        return None, f"is not an object but {type(value).__name__}: {text[:80]!r}"
    return value, None


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)
