import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hotloop.core.errors import WriteError
from hotloop.monitor.background import start


def until(seen, seconds=20):
    end = time.monotonic() + seconds
    while not (value := seen()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def ended(path):
    return lambda: json.loads(path.read_text())["ended"]


def test_it_writes_whole_files_and_ends_with_what_it_watches(tmp_path):
    out = tmp_path / "F.json"
    watched = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    arguments = ["--pid", str(watched.pid), "--interval", "0.2", "--output", str(out)]
    pid = start(arguments, out)
    try:
        assert json.loads(out.read_text())["ended"] is None, "while it goes on"
        watched.stdin.close()
        watched.wait()
        assert until(ended(out)) == f"process {watched.pid} has ended"
    finally:
        os.waitpid(pid, 0)


def test_it_can_be_told_to_end(tmp_path):
    out = tmp_path / "F.json"
    pid = start(["--duration", "60", "--interval", "0.2", "--output", str(out)], out)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 143
    assert "SIGTERM" in ended(out)()


def test_what_goes_wrong_at_once_is_told_here(tmp_path):
    out = tmp_path / "F.json"
    with pytest.raises(WriteError, match="ended at once with 2"):
        start(["--pid", str(2**30), "--output", str(out)], out)
