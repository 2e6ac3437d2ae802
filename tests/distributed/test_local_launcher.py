import subprocess
import sys
import time

import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="trials are for POSIX")

FIRST = """
import sys, time
from hotloop.distributed.local_launcher import Siblings
siblings = Siblings([sys.executable, "-c", sys.argv[1]], world=3, port=1234, grace=0.5)
"""
SLEEPER = (
    "import time; from hotloop.distributed.local_launcher import end_with_first; end_with_first(); "
)


def first(sibling: str, then: str) -> subprocess.CompletedProcess[str]:
    """Run a first rank that starts two siblings, and then does something."""
    return subprocess.run(
        [sys.executable, "-c", FIRST + then, sibling],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_is_told_who_it_is():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    sibling = (
        "import os; "
        f"os.write(1, (' '.join(os.environ[name] for name in {names!r}) + '\\n').encode())"
    )
    said = first(sibling, "time.sleep(0.5)")
    assert sorted(said.stdout.splitlines()) == [
        "1 1 3 3 127.0.0.1 1234",
        "2 2 3 3 127.0.0.1 1234",
    ]


@pytest.mark.parametrize(
    ("sibling", "how"),
    [
        ("raise SystemExit('out of memory with 8')", "ended with exit code 1: out of memory with"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL, which hotloop did not"),
    ],
)
def test_how_one_ended_is_said(sibling, how):
    said = first(f"import os, time; time.sleep(1.5 * (os.environ['RANK'] == '2')); {sibling}",
                 "print(siblings.how_ended())")  # fmt: skip
    assert said.stdout.startswith(f"rank 1 {how}")


def test_a_first_rank_that_waits_for_one_that_is_gone_ends_with_the_reason():
    began = time.perf_counter()
    said = first("raise SystemExit('no GPU')", "time.sleep(50)")
    assert time.perf_counter() - began < 30
    assert said.returncode == 1
    assert said.stderr.strip().splitlines()[-1].endswith("ended with exit code 1: no GPU")


@pytest.mark.parametrize("asleep", [False, True])
def test_they_end_when_the_first_one_is_killed(asleep):
    sibling = SLEEPER + "import os; os.write(1, b'.'); time.sleep(50)"
    command = [sys.executable, "-c", FIRST + "time.sleep(50)", sibling]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        for _ in range(2):  # until they have asked to end with it
            assert process.stdout.read(1) == b"."
        siblings = psutil.Process(process.pid).children()
        assert len(siblings) == 2
        for each in siblings if asleep and sys.platform == "linux" else []:
            each.suspend()
        process.kill()
        _, alive = psutil.wait_procs(siblings, timeout=10)
    assert alive == []
