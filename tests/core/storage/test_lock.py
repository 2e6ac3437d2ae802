import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import UsageError, WriteError
from hotloop.core.storage.lock import HeldError, Lock, LockHolder, change_text

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

WORKER = """
import os, random, sys, time
from pathlib import Path
from hotloop.core.errors import UsageError
from hotloop.core.storage.lock import Lock
draw, pause = random.Random(os.getpid()), float(sys.argv[1])
def dawdle(event, args):  # so that every order of the steps of two processes comes up
    if pause and event in ("open", "os.kill", "os.remove", "os.rename", "fcntl.flock"):
        time.sleep(draw.random() * pause)
sys.addaudithook(dawdle)
lock = None
for line in sys.stdin:
    word, path = line.split(maxsplit=1)
    if word == "release":
        lock.release()
        print("released", flush=True)
        continue
    lock = Lock(Path(path.strip()))
    try:
        lock.acquire()
        print("held", flush=True)
    except UsageError as error:
        print("refused", error, flush=True)
"""


class Worker:
    """Another process that takes and gives back locks as it is told."""

    def __init__(self, pause):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, f"{pause}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def notify(self, word, path):
        self.process.stdin.write(f"{word} {path}\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def workers():
    started = []

    def start(count, *, pause=0.0):  # at most so many seconds before each step
        started.extend(Worker(pause) for _ in range(count))
        return started

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock.json"


@pytest.fixture(scope="module")
def dead():
    """A process id that was in use and no longer is."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_behind(path, **changes):
    path.write_text(json.dumps({**asdict(LockHolder.me()), **changes}))


def test_a_lock_names_its_holder_while_it_is_held(path):
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over is None
    assert json.loads(path.read_text()) == asdict(LockHolder.me())
    assert LockHolder.me().why_stale() is None
    lock.release()
    assert not path.exists()


def test_release_is_idempotent_and_gives_back_only_its_own(path):
    first, second = Lock(path), Lock(path)
    first.release()  # never taken
    first.acquire()
    first.release()
    second.acquire()
    first.release()  # already given back: the file is the second's now
    with pytest.raises(UsageError):
        first.acquire()
    first.release()  # refused: not taken
    assert json.loads(path.read_text()) == asdict(LockHolder.me())
    second.release()
    second.release()
    assert not path.exists()


def test_release_leaves_a_lock_that_was_taken_over(path, dead):
    lock = Lock(path)
    lock.acquire()
    left_behind(path, pid=dead)  # someone deleted ours by hand and took the folder
    lock.release()
    assert json.loads(path.read_text())["pid"] == dead


def test_release_after_the_folder_was_deleted(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = Lock(folder / "lock.json")
    lock.acquire()
    (folder / "lock.json").unlink()
    folder.rmdir()
    lock.release()
    assert not folder.exists()


def test_this_process_is_refused_too(path):
    lock = Lock(path)
    lock.acquire()
    with pytest.raises(UsageError, match=rf"in use by process {os.getpid()} \(this one\) on "):
        Lock(path).acquire()
    lock.release()
    Lock(path).acquire()


def test_a_living_holder_is_named_with_a_remedy(path, workers):
    (worker,) = workers(1)
    worker.notify("acquire", path)
    assert worker.hear() == "held"
    with pytest.raises(UsageError) as refusal:
        Lock(path).acquire()
    said = str(refusal.value)
    assert f"{path.parent} is in use by process {worker.process.pid} on " in said
    assert f"delete {path}" in said
    worker.notify("release", path)
    assert worker.hear() == "released"
    Lock(path).acquire()


@pytest.mark.parametrize("reaped", [True, pytest.param(False, marks=linux)])
def test_a_killed_holder_is_taken_over_even_before_its_parent_notices(path, workers, reaped):
    (worker,) = workers(1)
    worker.notify("acquire", path)
    assert worker.hear() == "held"
    os.kill(worker.process.pid, signal.SIGKILL)
    assert worker.hear() == ""  # its end of the pipe is closed
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    if reaped:
        worker.process.wait()
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over == f"process {worker.process.pid} is gone"
    assert json.loads(path.read_text()) == asdict(LockHolder.me())


def test_a_dead_process_id_is_taken_over(path, dead):
    left_behind(path, pid=dead)
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over == f"process {dead} is gone"
    lock.release()
    lock.acquire()
    assert lock.took_over is None


@linux
def test_another_boot_is_taken_over(path):
    left_behind(path, boot="00000000-0000-0000-0000-000000000000")
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over == "the machine was restarted since"


@linux
def test_a_reused_process_id_is_taken_over(path):
    left_behind(path, started="1")
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over == f"process id {os.getpid()} belongs to another process now"


def test_nothing_follows_from_what_is_unknown(path, dead):
    me = LockHolder.me()
    assert replace(me, boot=None, started=None).why_stale() is None
    elsewhere = replace(me, host=f"not-{me.host}", pid=dead, boot="other", started="1")
    assert elsewhere.why_stale() is None  # on a shared disk, nothing here can tell
    left_behind(path, host=elsewhere.host, pid=dead)
    with pytest.raises(UsageError, match=f"process {dead} on not-"):
        Lock(path).acquire()


def test_a_process_of_another_user_is_alive():
    assert replace(LockHolder.me(), pid=1, started=None).why_stale() is None


@pytest.mark.parametrize(
    "text", ['{"pid": 1', "\0" * 40, "null", "[]", "{}", '{"pid": "1", "host": "h"}', "[" * 9999]
)
def test_a_name_that_was_cut_off_is_taken_over(path, text):
    path.write_text(text)
    lock = Lock(path)
    lock.acquire()
    assert lock.took_over == "its holder died while it wrote its name"
    lock.release()
    assert not path.exists()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70, True, None, 1.0])
def test_impossible_process_ids_are_no_holder(pid):
    assert LockHolder.parse(json.dumps({**asdict(LockHolder.me()), "pid": pid})) is None


def test_what_a_later_version_adds_is_ignored(path):
    left_behind(path, purpose="train")
    with pytest.raises(UsageError, match="in use"):
        Lock(path).acquire()


@given(st.text())
def test_any_text_can_be_parsed(text):
    holder = LockHolder.parse(text)
    assert holder is None or holder.pid > 0


FORKS = """
import os, sys
from pathlib import Path
from hotloop.core.storage.lock import Lock
lock, path = Lock(Path(sys.argv[1])), Path(sys.argv[1])
lock.acquire()
if (child := os.fork()) == 0:
    lock.release()
    os._exit(0)
os.waitpid(child, 0)
assert path.exists()
lock.release()
assert not path.exists()
"""


def test_a_forked_child_does_not_give_its_parents_lock_back(path):
    subprocess.run([sys.executable, "-c", FORKS, str(path)], check=True)


@pytest.mark.parametrize("before", ["stale", "free"])
def test_of_processes_that_race_exactly_one_holds_the_lock(path, workers, dead, before):
    """All see the same stale lock, or none, at about the same time; many rounds."""
    racing = workers(3, pause=0.003)
    for number in range(20):  # of these, the lock before this one failed one of the first four
        if before == "stale":
            left_behind(path, pid=dead)
        for worker in racing:
            worker.notify("acquire", path)
        answers = [worker.hear() for worker in racing]
        holders = [n for n, answer in enumerate(answers) if answer == "held"]
        assert len(holders) == 1, (number, answers)
        winner = racing[holders[0]]
        refused = [answer for answer in answers if answer != "held"]
        assert all(f"in use by process {winner.process.pid} " in answer for answer in refused)
        winner.notify("release", path)
        assert winner.hear() == "released"
        assert not path.exists()


COUNT = """
import fcntl, random, sys, time
from pathlib import Path
from hotloop.core.errors import UsageError
from hotloop.core.storage.lock import Lock
path, counter = Path(sys.argv[1]), Path(sys.argv[2])
draw, lock, left = random.Random(sys.argv[3]), Lock(path), 12
def dawdle(event, args):
    if event == "fcntl.flock" and args[1] & fcntl.LOCK_EX:  # the file was opened just now
        time.sleep(draw.random() * 0.004)
sys.addaudithook(dawdle)
while left:
    try:
        lock.acquire()
    except UsageError:
        continue
    count = int(counter.read_text())
    time.sleep(0.001)
    counter.write_text(str(count + 1))
    lock.release()
    left -= 1
"""


def test_a_lock_that_is_being_given_back_is_not_held_twice(path, tmp_path):
    """Three processes count together; a count that two read at once would get lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    arguments = [sys.executable, "-c", COUNT, str(path), str(counter)]
    counting = [subprocess.Popen([*arguments, f"{seed}"]) for seed in range(3)]
    assert [process.wait(timeout=60) for process in counting] == [0, 0, 0]
    assert counter.read_text() == "36"


def test_a_group_that_its_launcher_started_anew_takes_over_on_whichever_machine(path):
    left_behind(path, host="another-machine", job="one")
    for job in (None, "two"):
        with pytest.raises(UsageError, match="on another-machine"):
            Lock(path).acquire(job)
    lock = Lock(path)
    lock.acquire("one")
    assert "on another-machine was started anew" in lock.took_over
    lock.release()
    assert not path.exists()


def test_a_text_is_changed_and_an_empty_one_is_no_file(tmp_path):
    path, seen = tmp_path / "lock", []

    def to(text):
        return lambda old: (seen.append(old), text)[1]

    for text in ("a long one", "short", "short", "", ""):
        change_text(path, to(text))
        assert (path.read_text() if path.exists() else "") == text
    assert seen == ["", "a long one", "short", "short", ""]
    assert not path.exists()


def test_an_error_of_the_change_leaves_the_text(tmp_path):
    path = tmp_path / "lock"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        change_text(path, lambda old: f"{1 / 0}")
    change_text(path, lambda old: f"{old}er")
    assert path.read_text() == "older"


def test_a_text_is_not_changed_while_another_process_holds_it(tmp_path):
    path = tmp_path / "lock"
    path.write_text("a")
    with path.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(change_text, path, lambda old: old + "c")
            time.sleep(0.05)
            assert not job.done()
            held.write("b")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_UN)
            job.result()
    assert path.read_text() == "abc"


def test_a_file_removed_while_waiting_for_it_is_not_the_file(tmp_path):
    path = tmp_path / "lock"
    path.write_text("old")
    with path.open("a+") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        job = pool.submit(change_text, path, lambda old: f"{old}new")
        time.sleep(0.05)
        path.unlink()
        fcntl.flock(held, fcntl.LOCK_UN)
        job.result()
    assert path.read_text() == "new"


def test_a_text_in_a_missing_folder(tmp_path):
    with pytest.raises(WriteError, match="make its folder first"):
        change_text(tmp_path / "missing" / "lock", lambda old: "x")


def test_a_lock_of_another_machine_is_not_waited_for(tmp_path):
    path = tmp_path / "lock"
    path.write_text(json.dumps(asdict(replace(LockHolder.me(), host="elsewhere", pid=1))))
    with pytest.raises(HeldError, match="process 1 on elsewhere"):
        Lock(path).wait(lambda holder: pytest.fail("it waits"))
