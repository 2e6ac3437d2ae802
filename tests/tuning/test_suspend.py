import subprocess
import sys
import time

import psutil
import pytest

from hotloop.process.supervisor import is_tidier
from hotloop.tuning.suspend import children_asleep, descendants, put_to_sleep, wake


@pytest.fixture
def started():
    processes = []

    def start(*words: str) -> psutil.Process:
        code = "import time; time.sleep(60)"
        processes.append(subprocess.Popen([sys.executable, "-c", code, *words]))
        return psutil.Process(processes[-1].pid)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def is_asleep(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 5
    while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    return process.status() == psutil.STATUS_STOPPED


def test_what_this_process_started_sleeps_until_it_is_woken(started):
    process = started()
    asleep = children_asleep()
    assert process in asleep
    assert is_asleep(process)
    wake(asleep)
    assert process.status() != psutil.STATUS_STOPPED


def test_what_slept_before_is_nobodys_to_wake(started):
    process = started()
    process.suspend()
    assert is_asleep(process)
    assert put_to_sleep([process]) == []


def test_what_tidies_up_after_others_stays_awake(started):
    tidier = started("multiprocessing.resource_tracker")
    assert put_to_sleep([tidier]) == []
    assert tidier.status() != psutil.STATUS_STOPPED


def test_a_process_that_is_gone_is_passed_over(started):
    process = started()
    process.kill()
    process.wait()
    assert put_to_sleep([process]) == []
    wake([process])


def test_a_tidier_is_known_though_it_has_no_command_line_yet(monkeypatch):
    lines = iter([[], [], ["python", "-c", "from multiprocessing.resource_tracker import main"]])
    process = psutil.Process()
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: next(lines))
    assert is_tidier(process)


def test_children_of_all_threads_and_theirs_are_listed(started):
    code = (
        "import subprocess, sys, threading, time\n"
        "nap = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "threading.Thread(target=lambda: (subprocess.Popen(nap), time.sleep(60))).start()\n"
        "subprocess.Popen(nap)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        top = psutil.Process(parent.pid)
        deadline = time.monotonic() + 30
        while len(top.children()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        found = descendants(top)
        assert top in descendants(psutil.Process())
        for process in (top, *found):
            process.kill()
    assert len(found) == 2
    assert descendants(top) == [], "it is gone"
