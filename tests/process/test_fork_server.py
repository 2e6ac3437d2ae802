"""Children that a server forks: like new interpreters, and new ones where a fork does not serve.

That limits, ends and trees are the same is in test_child.py, which runs both ways.
"""

import contextlib
import json
import os
import signal
import socket
import sys

import pytest

from hotloop.core.env import inherited
from hotloop.process.child import MARK, Outcome, ProcessLimits, Running
from hotloop.process.fork_server import ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")

LOOK = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv, "orig": sys.orig_argv, "path": sys.path, "name": __name__,
    "cwd": os.getcwd(), "environment": dict(os.environ), "leads": os.getsid(0) == os.getpid(),
    "signals": {str(n): str(signal.getsignal(n)) for n in (2, 10, 15)}, "stdin": sys.stdin.read(),
    "files": sorted(set(os.listdir("/proc/self/fd")) - {"3"}), "mended": "mended" in sys.modules,
    "encoding": sys.stdout.encoding, "buffered": sys.stdout.line_buffering,
}))
"""
IS_FORK = "import sys; print('hotloop' in sys.modules)"


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    (tmp_path / "mended.py").write_text("value = 1")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


def serving(cwd=None) -> contextlib.closing[ForkServer]:
    """A server with the environment of now: pytest changes it before each test."""
    return contextlib.closing(ForkServer(("mended",), inherited(), cwd=cwd))


def run(code: str, *args: object, server: ForkServer | None = None, **more) -> Outcome:
    command, limits = [sys.executable, "-c", code, *map(str, args)], ProcessLimits(seconds=60)
    return Running(command, limits=limits, server=server, **more).wait()


def test_a_fork_is_like_a_new_interpreter(tmp_path):
    with serving(tmp_path) as server:
        looks = []
        for each in (None, server):
            outcome = run(LOOK, "a", "b c", server=each, cwd=tmp_path)
            assert outcome.ok, outcome
            looks.append(json.loads(outcome.stdout))
            del looks[-1]["environment"][MARK]
        fresh, forked = looks
        assert forked == fresh
        assert not forked["mended"]
        assert run(IS_FORK, server=server, cwd=tmp_path).stdout == "True\n"


def test_a_script_that_changes_its_environment_runs_anew():
    with serving() as server:
        code = f"import os; os.environ['HOW'] = 'x'; import mended; {IS_FORK}; print(mended.value)"
        outcome = run(code, server=server)
        assert outcome.stdout == "False\n1\n"
        # The next ones do not try again.
        assert run(IS_FORK, server=server).stdout == "False\n"


@pytest.mark.parametrize("number", [None, 200, 201, 202])  # the server uses these in between
@pytest.mark.parametrize("as_fresh", [False, True])
def test_a_channel_reaches_the_child(as_fresh, number):
    with serving() as server:
        ours, theirs = socket.socketpair()
        code = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(b'here')"
        if as_fresh:
            code = f"import os; os.environ['HOW'] = 'x'; import mended; {code}"
        with ours, theirs:
            channel = theirs.fileno() if number is None else os.dup2(theirs.fileno(), number)
            outcome = run(code, channel, server=server, channel=channel)
            assert outcome.ok, outcome
            assert ours.recv(4) == b"here"
            if number is not None:
                os.close(number)


def test_another_environment_folder_or_program_is_not_forked(tmp_path):
    with serving() as server:
        assert run(IS_FORK, server=server, cwd=tmp_path).stdout == "False\n"
        assert run(IS_FORK, server=server, environment={"ONE": "1"}).stdout == "False\n"
        limits = ProcessLimits(seconds=60)
        assert Running([sys.executable, "--version"], limits=limits, server=server).wait().ok


def test_without_a_server_that_lives_children_are_fresh():
    with serving() as server:
        assert run(IS_FORK, server=server).stdout == "True\n"
        os.kill(server._process.pid, signal.SIGKILL)
        server._process.wait()
        assert run(IS_FORK, server=server).stdout == "False\n"


def test_a_server_that_cannot_import_serves_nothing(tmp_path):
    (tmp_path / "mended.py").write_text("raise ValueError('damaged')")
    with serving() as server:
        assert run(IS_FORK, server=server).stdout == "False\n"


def test_what_children_used_counts_once_the_server_is_closed():
    spin = "import time\nwhile time.process_time() < 0.5: pass"
    before = os.times()
    with serving() as server:
        assert run(spin, server=server).ok
    after = os.times()
    used = after.children_user + after.children_system
    assert used - (before.children_user + before.children_system) >= 0.5
