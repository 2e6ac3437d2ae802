"""`make gpu` is three calls on a lent GPU: they leave no test out, and a failure costs one part."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.gpu.calls import CALLS
from benchmarks.gpu.flight import CALL_S, Call, Part, fly
from benchmarks.gpu.gpu_tests import words
from tests.paths import ROOT


def test_every_test_of_a_gpu_is_in_the_call():
    called = words()
    files = [ROOT / word for word in called if word.startswith("tests/")]
    marked = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in path.read_text()
    ]
    marked.remove(Path(__file__))
    assert len(marked) >= 8
    assert set(files) == set(marked)
    assert [path for path in files if "hypothesis" in path.read_text()] == []  # not on that machine
    assert called[called.index("-W") + 1] == "default"
    assert "--continue-on-collection-errors" in called


BEGINS_S = 10  # torch is loaded for the hardware's name, and results are copied


def test_a_machine_of_ten_minutes_suffices_for_a_call():
    assert sorted(CALLS) == [1, 2, 3]
    assert CALL_S == 9 * 60
    names = [part.name for call in CALLS.values() for part in call.parts]
    assert len(set(names)) == len(names)
    for call in CALLS.values():
        assert all(part.limit_s <= CALL_S for part in call.parts)
        own = [part for part in call.parts if not part.is_spare]
        assert sum(part.limit_s for part in own) + BEGINS_S <= CALL_S
        assert [part.is_spare for part in call.parts] == sorted(p.is_spare for p in call.parts)


@pytest.fixture
def flown(tmp_path, monkeypatch):
    """Fly parts that are this test's own: each runs lines of Python with its file as argv[1]."""

    def flight(budget_s=60.0, **scripts):
        parts = [
            Part(name=name, what=name, module="facts", words=(lines,), limit_s=limit)
            for name, (lines, limit) in scripts.items()
        ]
        monkeypatch.setattr(
            Part,
            "command",
            lambda part, file, limit_s, short: [sys.executable, "-c", *part.words, str(file)],
        )
        call = Call(number=1, parts=parts)
        record = fly(call, tmp_path / "here", budget_s=budget_s, copy=tmp_path / "there")
        return record["parts"]

    return flight


WRITES = "import sys; open(sys.argv[1], 'w').write('{\"rate\": 3}')"


def test_a_part_that_fails_or_hangs_costs_the_call_nothing_else(flown, tmp_path):
    hangs = f"{WRITES}; import time; print('begun', flush=True); time.sleep(600)"
    parts = flown(
        fails=("raise SystemExit('no such card')", 30.0), hangs=(hangs, 3.0), works=(WRITES, 30.0)
    )
    assert parts["fails"]["state"] == "failed: exit code 1"
    assert parts["fails"]["said"] == ["no such card"]
    assert parts["hangs"]["state"] == "stopped: it passed its limit of 3 s"
    assert parts["works"]["state"] == "done"
    for folder in ("here", "there"):
        for name in ("hangs", "works"):  # what was known when it was stopped is kept
            assert json.loads((tmp_path / folder / f"{name}.json").read_text()) == {"rate": 3}
        kept = json.loads((tmp_path / folder / "call-1.json").read_text())
        assert kept["parts"] == parts


def test_what_a_part_started_ends_with_it(flown, tmp_path):
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); "
    lines = f"{child} open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); p.wait()"
    flown(parent=(lines, 3.0))
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_part_is_not_begun_when_the_time_is_over(flown):
    parts = flown(budget_s=0.0, late=(WRITES, 30.0))
    assert parts["late"]["state"] == "not begun: the 0 s of the call were over"


def test_without_a_gpu_the_command_says_so_and_where_to_go():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "torch finds no GPU" in done.stderr
    assert "make rehearse-gpu" in done.stderr
