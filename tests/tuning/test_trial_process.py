import sys
import time

import psutil
import pytest

from hotloop.tuning.trial_process import TrialEnded, TrialProcess

COUNTS = """
import socket, sys, time
from hotloop.tuning.step_gate import Gate
gate = Gate(socket.socket(fileno=int(sys.argv[1])), wait=lambda: None, more=lambda: {"epochs": 1})
for step in range(40):
    time.sleep(0.002)
    gate.ended()
gate.over("the script ended")
"""


def live(code: str, **more) -> TrialProcess:
    return TrialProcess(lambda channel: [sys.executable, "-c", code, str(channel)], **more)


def tree() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = tree()
    yield
    assert tree() <= before


def test_it_makes_as_many_steps_as_it_is_told_to_and_says_how_long_they_took():
    with live(COUNTS) as trial:
        first = trial.first(seconds=30)
        assert (first.at, first.made, first.more["epochs"]) == (1, 1, 1)
        block = trial.block(10, seconds=30)
        assert (block.at, block.made) == (11, 10)
        assert 0.02 <= block.seconds < 5


def test_it_may_be_watched_from_a_process_with_many_open_files(many_open_files):
    with live(COUNTS) as trial:
        assert trial.first(seconds=30).at == 1


def test_between_its_blocks_all_its_processes_sleep():
    workers = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
"""
    with live(workers + COUNTS) as trial:
        trial.first(seconds=30)
        mine = [p for p in psutil.Process().children(recursive=True) if _is_loop(p)]
        assert len(mine) == 1
        until(lambda: mine[0].status() == psutil.STATUS_STOPPED)
        trial.block(5, seconds=30)
        used = mine[0].cpu_times().user
        time.sleep(0.2)
        assert mine[0].cpu_times().user == used


def until(met) -> None:
    deadline = time.monotonic() + 10
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_loop(process: psutil.Process) -> bool:
    return "while True: pass" in process.cmdline()


def test_the_time_asleep_is_in_no_block():
    with live(COUNTS) as trial:
        trial.first(seconds=30)
        time.sleep(0.5)
        assert trial.block(3, seconds=30).seconds < 0.4


def test_a_script_that_is_over_says_so_and_after_how_many_steps():
    with live(COUNTS) as trial:
        trial.first(seconds=30)
        with pytest.raises(TrialEnded, match="over: the script ended after 40 steps") as caught:
            trial.block(100, seconds=30)
        assert caught.value.at == 40


def test_a_script_that_failed_says_so():
    bad = COUNTS.replace('over("the script ended")', 'over("it broke", outcome="failed")')
    with live(bad) as trial:
        trial.first(seconds=30)
        with pytest.raises(TrialEnded, match="failed: it broke after 40 steps"):
            trial.block(100, seconds=30)


def ends(code: str, *, seconds: float = 30, **more) -> TrialEnded:
    with live(code, **more) as trial:
        try:
            trial.first(seconds=seconds)
            trial.block(5, seconds=seconds)
        except TrialEnded as ended:
            return ended
    pytest.fail("it went on")


def test_a_trial_that_hangs_is_ended():
    ended = ends("import time; time.sleep(600)", seconds=1)
    assert (ended.outcome, ended.reason) == (
        "timeout",
        "it had not made its first step within 1 s",
    )


def test_a_trial_that_hangs_later_is_ended():
    later = COUNTS.replace("time.sleep(0.002)", "time.sleep(0.002 if step < 2 else 600)")
    assert ends(later, seconds=2).reason == "5 steps were not over within 2 s"


def test_a_crash_has_its_reason():
    ended = ends("raise RuntimeError('CUDA out of memory')")
    assert ended.outcome == "failed"
    assert "CUDA out of memory" in ended.reason


def test_a_trial_that_eats_memory_is_ended():
    greedy = "import time; kept = [bytearray(1 << 20) for _ in range(600)]; time.sleep(60)"
    ended = ends(greedy, memory=200 << 20)
    assert ended.outcome == "over memory"


def test_a_trial_that_kills_its_process_group_is_an_outcome():
    ended = ends("import os, signal; os.killpg(os.getpgid(0), signal.SIGKILL)")
    assert (ended.outcome, "SIGKILL" in ended.reason) == ("killed", True)


def test_a_trial_that_prints_without_end_is_ended():
    ended = ends("while True: print('x' * 1_000_000)", output=20 << 20)
    assert ended.outcome == "over output"


@pytest.mark.parametrize("said", ["no json", '{"made": 1}', "[1]", '{"pid": 1, "made": "x"}'])
def test_garbage_is_an_outcome(said):
    code = f"import os, sys, time; os.write(int(sys.argv[1]), {said.encode()!r} + b'\\n'); "
    ended = ends(code + "time.sleep(60)")
    assert (ended.outcome, ended.reason[:19]) == ("failed", "it answered garbage")


def test_a_stranger_it_names_as_its_process_is_not_put_to_sleep():
    stranger = psutil.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        said = f'{{"pid": {psutil.Process().ppid()}, "made": 1, "at": 1, "seconds": 1}}\\n'
        code = f"import os, sys, time; os.write(int(sys.argv[1]), b'{said}'); time.sleep(60)"
        with live(code) as trial:
            trial.first(seconds=30)
            assert psutil.Process(psutil.Process().ppid()).status() != psutil.STATUS_STOPPED
    finally:
        stranger.kill()
        stranger.wait()


def test_what_it_takes_of_memory_is_known():
    with live("kept = bytearray(80 << 20)\n" + COUNTS) as trial:
        trial.first(seconds=30)
        trial.block(30, seconds=30)
    assert trial.peak_bytes > 80 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell shared pages apart")
def test_memory_that_forked_workers_share_counts_once():
    forks = "import os, time\nfor _ in range(4):\n    if not os.fork():\n        time.sleep(60)\n"
    with live("kept = bytearray(b'x') * (80 << 20)\n" + forks + COUNTS) as trial:
        trial.first(seconds=30)
        trial.block(30, seconds=30)
    assert 80 << 20 < trial.peak_bytes < 2 * (80 << 20)
