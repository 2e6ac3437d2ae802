import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hotloop.core.env import inherited
from hotloop.core.errors import ConfigError
from hotloop.process.child import RESULT, SCRATCH, Beat, Outcome, ProcessLimits, Running, run
from hotloop.process.fork_server import ForkServer

HANG = "import time; time.sleep(600)"
# A grandchild in a session of its own, orphaned, deaf to SIGTERM and SIGHUP; it tells its pid.
STUBBORN = """
import os, signal, subprocess, sys, time
code = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork():
    os._exit(0)
os.setsid()
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
'''
subprocess.run([sys.executable, "-c", code, sys.argv[1]], start_new_session=True)
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions are POSIX")


# How the children of a test start: "fresh", or "forked" by a server of their own.
HOW = ["fresh"]


@pytest.fixture(
    params=[
        "fresh",
        pytest.param("forked", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux")),
    ],
    autouse=True,
)
def how(request: pytest.FixtureRequest):
    HOW[0] = request.param
    yield HOW[0]
    HOW[0] = "fresh"


@contextlib.contextmanager
def server_for(environment: dict | None) -> Iterator[ForkServer | None]:
    if HOW[0] == "fresh":
        yield None
        return
    with contextlib.closing(ForkServer((), inherited(**(environment or {})))) as server:
        yield server


def start(command: list, *, limits: ProcessLimits, progress=None, **more) -> Outcome:
    with server_for(more.get("environment")) as server:
        return Running(command, limits=limits, server=server, **more).wait(progress)


def python(code: str, *args: object, seconds: float = 60, **more) -> Outcome:
    limits = more.pop("limits", None) or ProcessLimits(seconds=seconds)
    return start([sys.executable, "-c", code, *map(str, args)], limits=limits, **more)


def pid_in(path: Path) -> int:
    until(path.exists)
    return int(path.read_text())


def until(met, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_child_that_ends_well_hands_back_its_result_and_the_end_of_its_output():
    code = "import sys, json; print('hello'); json.dump({'a': [1, 2.5]}, open(sys.argv[1], 'w'))"
    outcome = python(code, RESULT)
    assert outcome.ok
    assert (outcome.status, outcome.code, outcome.reason) == ("ok", 0, None)
    assert (outcome.result, outcome.stdout, outcome.stderr) == ({"a": [1, 2.5]}, "hello\n", "")
    assert outcome.seconds > 0


def test_only_the_end_of_a_long_output_is_kept():
    outcome = python("print('x' * 100_000 + 'end')")
    assert outcome.ok
    assert outcome.stdout.endswith("xend\n")
    assert len(outcome.stdout) == 16 * 1024


def test_an_error_gives_the_exit_code_and_its_last_line():
    outcome = python("raise ValueError('no such thing')")
    assert (outcome.status, outcome.code) == ("failed", 1)
    assert outcome.reason == "exit code 1: ValueError: no such thing"
    assert "Traceback" in outcome.stderr


@posix
def test_a_crash_names_its_signal():
    outcome = python("import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    assert (outcome.status, outcome.signal, outcome.code) == ("killed", signal.SIGABRT, None)
    assert "SIGABRT" in outcome.reason


def test_a_child_that_hangs_is_ended_at_its_time():
    outcome = python(HANG, seconds=0.5)
    assert (outcome.status, outcome.code, outcome.signal) == ("timeout", None, None)
    assert 0.5 <= outcome.seconds < 5
    assert outcome.reason == "it was not done within 0.5 s"


def test_a_child_that_takes_too_much_memory_is_ended():
    hog = "a = []\nimport time\nwhile True: a.append(bytearray(2**22)); time.sleep(0.002)"
    beats: list[Beat] = []
    limits = ProcessLimits(seconds=60, memory=100 * 2**20)
    outcome = python(hog, limits=limits, progress=beats.append)
    assert outcome.status == "over memory"
    assert outcome.reason == "it needed more than the 100 MiB allowed"
    assert 100 * 2**20 < max(beat.rss_bytes for beat in beats) < 2**30


def test_memory_counts_over_the_whole_tree():
    one = "a = b'x' * (40 * 2**20); import time; time.sleep(600)"
    tree = (
        "import subprocess, sys\n"
        "all = [subprocess.Popen([sys.executable, '-c', sys.argv[1]]) for _ in range(3)]\n"
        "all[0].wait()"
    )
    outcome = python(tree, one, limits=ProcessLimits(seconds=60, memory=120 * 2**20))
    assert outcome.status == "over memory"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells shared pages apart")
def test_pages_that_forked_workers_share_count_once():
    code = "import os, time\na = b'x' * (60 * 2**20)\nos.fork() and os.fork()\ntime.sleep(0.8)"
    beats: list[Beat] = []
    limits = ProcessLimits(seconds=60, memory=120 * 2**20)
    outcome = python(code, limits=limits, progress=beats.append)
    assert outcome.ok
    assert max(beat.rss_bytes for beat in beats) > 150 * 2**20


def test_a_child_that_prints_without_end_is_ended():
    outcome = python("while True: print('spam')", limits=ProcessLimits(seconds=60, output=10**6))
    assert outcome.status == "over output"
    assert outcome.stdout.endswith("spam\n") or "spam" in outcome.stdout


@posix
def test_nothing_of_the_tree_outlives_its_time(tmp_path: Path):
    outcome = python(STUBBORN + HANG, tmp_path / "pid", seconds=2)
    assert outcome.status == "timeout"
    assert is_dead(pid_in(tmp_path / "pid"))


@posix
def test_what_a_child_leaves_running_is_ended_with_it(tmp_path: Path):
    wait = "while not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    outcome = python(STUBBORN + wait, tmp_path / "pid")
    assert outcome.ok
    assert is_dead(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not an object but list"),
        ('{"a": NaN}', "NaN is not a number in JSON"),
        ('{"a": 1e999}', "1e999 is not a number in JSON"),
        ("\\udcff", "cannot be read"),
        ("x" * (16 * 2**20 + 1), "is longer than"),
    ],
    ids=["cut", "list", "nan", "huge", "binary", "long"],
)
def test_garbage_is_an_outcome_with_its_reason(tmp_path: Path, text: str, reason: str):
    (tmp_path / "text").write_text(text.replace("\\udcff", ""), "utf-8")
    if "udcff" in text:
        (tmp_path / "text").write_bytes(b"\xff\xfe")
    code = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    outcome = python(code, tmp_path / "text", RESULT)
    assert (outcome.status, outcome.code, outcome.result) == ("failed", 0, None)
    assert outcome.reason.startswith("its result ")
    assert reason in outcome.reason


def test_a_result_that_was_asked_for_and_is_not_there_is_a_failure():
    assert python("pass", RESULT).reason == "it handed back no result"


def test_a_result_written_before_a_crash_is_kept():
    outcome = python("import sys; open(sys.argv[1], 'w').write('{\"a\": 1}'); sys.exit(3)", RESULT)
    assert (outcome.status, outcome.code, outcome.result) == ("failed", 3, {"a": 1})


def test_the_scratch_folder_is_the_childs_own_and_goes_with_it():
    code = "import json, os, sys; json.dump({'path': os.environ['HERE']}, open(sys.argv[1], 'w'))"
    outcome = python(code, RESULT, environment={"HERE": SCRATCH})
    assert outcome.ok
    assert not Path(outcome.result["path"]).exists()


def test_folder_and_environment_are_as_asked(tmp_path: Path):
    code = "import os; print(os.getcwd(), os.environ['ONE'], 'PATH' in os.environ)"
    outcome = python(code, cwd=tmp_path, environment={"ONE": "1"})
    assert outcome.stdout.split() == [str(tmp_path.resolve()), "1", "True"]


def test_a_program_that_is_not_there_is_a_failure():
    outcome = run(["no-such-program"], limits=ProcessLimits(seconds=5))
    assert (outcome.status, outcome.code) == ("failed", None)
    assert "could not be started" in outcome.reason


def test_progress_is_told_while_it_runs():
    beats: list[Beat] = []
    assert python("import time; time.sleep(0.8)", progress=beats.append).ok
    assert len(beats) >= 2
    assert beats[-1].seconds > beats[0].seconds
    assert beats[-2].rss_bytes > 2**20  # at the last one it may just have ended


def test_an_error_in_progress_passes_through_and_the_tree_is_dead(tmp_path: Path):
    def fail(_: Beat) -> None:
        if (tmp_path / "pid").exists():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        python(STUBBORN + HANG, tmp_path / "pid", progress=fail)
    assert is_dead(pid_in(tmp_path / "pid"))


def test_a_slow_progress_does_not_hold_up_the_limits():
    outcome = python(HANG, seconds=0.3, progress=lambda _: time.sleep(0.3))
    assert outcome.status == "timeout"
    assert outcome.seconds < 2


def parent_of(code: str, *args: object) -> subprocess.Popen[str]:
    """A process that runs `code` as a child and prints the outcome."""
    run_it = (
        "import sys\nfrom hotloop.process.child import ProcessLimits, Running\n"
        "from hotloop.process.fork_server import ForkServer\n"
        "from hotloop.core.env import inherited\n"
        f"server = ForkServer((), inherited()) if {HOW[0] == 'forked'} else None\n"
        "limits, command = ProcessLimits(seconds=60), [sys.executable, '-c', *sys.argv[1:]]\n"
        "outcome = Running(command, limits=limits, server=server).wait()\n"
        "print(outcome.status)"
    )
    command = [sys.executable, "-c", run_it, code, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


@posix
def test_ctrl_c_in_the_parent_ends_the_tree(tmp_path: Path):
    with parent_of(STUBBORN + HANG, tmp_path / "pid") as parent:
        pid = pid_in(tmp_path / "pid")
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
        assert parent.communicate(timeout=20)[0] == "interrupted\n"
    assert is_dead(pid)


@posix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_parent_dies_the_tree_dies(tmp_path: Path, number: int):
    with parent_of(STUBBORN + HANG, tmp_path / "pid") as parent:
        pid = pid_in(tmp_path / "pid")
        parent.send_signal(number)
    until(lambda: is_dead(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="by PR_SET_PDEATHSIG and /proc")
@pytest.mark.parametrize("later", [0, 0.3])  # before and after it has seen the grandchild
def test_when_the_warden_is_killed_the_tree_dies_and_that_is_told(
    tmp_path: Path, later: float, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))  # the warden's

    others = psutil.Process().children()  # workers of other tests
    below = 1 if HOW[0] == "forked" else 0  # a forked warden is a child of the server

    def murder(_: Beat) -> None:
        if (tmp_path / "pid").exists():
            time.sleep(later)
            for process in psutil.Process().children():
                if process not in others:
                    for warden in process.children() if below else [process]:
                        warden.kill()

    outcome = python(STUBBORN + HANG, tmp_path / "pid", progress=murder)
    assert outcome.status == "failed"
    assert outcome.reason == "the process that watched it was killed"
    until(lambda: is_dead(pid_in(tmp_path / "pid")))
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"seconds": 1, "memory": 0}])
def test_limits_must_be_positive(wrong: dict):
    with pytest.raises(ConfigError, match="must be positive"):
        ProcessLimits(**wrong)
