import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from hotloop.core.errors import UsageError
from hotloop.monitor.tree import Tree

# Starts a child that computes and says its id; both end when standard input closes.
PARENT = """
import subprocess, sys
code = "import sys, threading\\nthreading.Thread(target=sys.stdin.read, daemon=False)\\n"
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


@pytest.fixture
def family():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    yield parent, child
    parent.stdin.close()
    parent.wait()
    parent.stdout.close()


def test_children_count_with_their_cores_and_memory(family):
    parent, child = family
    tree = Tree(parent.pid)
    tree.read()
    spent = psutil.Process(child).cpu_times().user
    until = time.monotonic() + 20
    while psutil.Process(child).cpu_times().user < spent + 0.1 and time.monotonic() < until:
        time.sleep(0.05)
    found = tree.read()
    assert tree.pids == {parent.pid, child}
    assert found["process_count"] == 2
    assert found["process_cpu_cores"] > 0
    alone = psutil.Process(parent.pid).memory_info().rss
    assert found["process_rss_bytes"] > alone


def test_a_process_that_has_ended_is_not_alive_and_reads_nothing():
    code, pipe = "print(flush=True); input()", subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe)
    process.stdout.readline()  # right after exec the system has no command line of it yet
    tree = Tree(process.pid)
    assert tree.alive()
    assert "input()" in tree.command
    process.stdout.close()
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not tree.alive(), "its entry that waits for the parent is no process"
    process.wait()
    assert not tree.alive()
    assert tree.read() == {}


def test_a_process_that_was_stopped_is_paused():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tree = Tree(process.pid)
    assert not tree.paused()
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert tree.paused()
    assert tree.alive()
    process.kill()
    process.stdin.close()
    process.wait()


def test_an_id_without_a_process_is_refused():
    with pytest.raises(UsageError, match="no process has the id 1073741824"):
        Tree(2**30)


def test_the_kernels_own_lists_of_children_are_used_where_there_are_some(tmp_path):
    me, child = os.getpid(), subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    for pid, below in ((me, f"{child.pid} "), (child.pid, "")):
        lists = tmp_path / f"{pid}/task/{pid}"
        lists.mkdir(parents=True)
        (lists / "children").write_text(below)
    tree = Tree(me, proc=tmp_path)
    tree.read()
    assert tree.pids == {me, child.pid}
    child.stdin.close()
    child.wait()
