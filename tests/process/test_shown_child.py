import contextlib
import io
import os
import signal
import subprocess
import sys
import time

from hotloop.process.shown_child import run_shown

SPEAKS = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); exit(3)"]


def test_the_output_of_a_child_is_inherited(capfd):
    code = f"from hotloop.process.shown_child import run_shown; exit(run_shown({SPEAKS!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_it_goes_where_a_notebook_prints():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert run_shown(SPEAKS) == 3
    assert (out.getvalue(), err.getvalue()) == ("out\n", "err\n")


CHILD = """
import signal, time
signal.signal(signal.SIGINT, lambda *_: (time.sleep(1), print("ended in order"), exit(0)))
print("began", flush=True)
time.sleep(60)
"""
PARENT = f"""
import sys
from hotloop.process.shown_child import run_shown
try:
    run_shown([sys.executable, "-c", {CHILD!r}])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_waits_for_the_child_to_end_in_order():
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "began\n"
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal and a notebook do
    out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["ended in order", "interrupted"]
