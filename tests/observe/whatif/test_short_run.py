"""Short runs of scripts in children, one for each kind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.core import codec
from hotloop.observe.whatif.short_run import ShortRunRequest, ShortRunResult, command
from hotloop.process import child

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the tests fork")

PARTS = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 12
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Data(), batch_size=2)
"""
TRAIN = """
before = model.weight.detach().clone()
for epoch in range(1000):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        print(epoch, torch.equal(before, model.weight))
        open("log.txt", "w").write("x")
"""
MANUAL = """
while True:
    model(torch.randn(2, 4)).sum().backward()
    with torch.no_grad():
        model.weight -= 0.1 * model.weight.grad
"""
FINALLY = """
try:
    exec(train)
finally:
    open("finally.txt", "w")
"""


ZYGOTE = """
import json, os, sys
import torch
import hotloop.observe.whatif.short_run, hotloop.observe.probes.operators
import hotloop.observe.whatif.batch_replay
import torch._dynamo, torch.profiler  # the first step of an optimizer imports them
torch.set_num_threads(1)  # a thread pool does not survive a fork
for line in sys.stdin:
    folder, argv = json.loads(line)
    if os.fork() == 0:
        os.chdir(folder)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
        hotloop.observe.whatif.short_run.main(argv)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def zygote():
    """A process that has imported torch and forks for each run: a twentieth of the time."""
    command = [sys.executable, "-c", ZYGOTE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def short(zygote, tmp_path: Path):
    """Runs a script in `tmp_path` as `kind` and returns the report."""

    def run(script: str, kind: str, **more) -> ShortRunResult:
        (tmp_path / "train.py").write_text(script)
        settings = {"steps": 6, "warm": 5, "seconds": 60} | more
        request = ShortRunRequest(kind=kind, result=str(tmp_path / "result.json"), **settings)
        argv = [json.dumps(codec.to_json(request)), "train.py", "--x"]
        zygote.stdin.write(json.dumps([str(tmp_path), argv]) + "\n")
        zygote.stdin.flush()
        assert zygote.stdout.readline() == "0\n"
        return codec.from_json(ShortRunResult, json.loads((tmp_path / "result.json").read_text()))

    return run


def test_a_baseline_times_the_steps_and_ends_without_the_scripts_last_words(tmp_path: Path, short):
    script = PARTS + f"train = {TRAIN!r}" + FINALLY
    report = short(script, "baseline")
    assert report.why is None
    assert len(report.step_time) == 6
    assert min(report.step_time) > 0.004
    assert (tmp_path / "log.txt").exists()
    assert not (tmp_path / "finally.txt").exists()


def test_replayed_batches_take_no_reading(short):
    report = short(PARTS + TRAIN, "compute")
    assert len(report.step_time) == 6
    assert min(report.step_time) < 0.004  # each read sleeps longer


def test_a_loader_alone_is_timed_by_the_batches_of_a_step(short):
    loop = TRAIN.replace("optimizer.step()", "optimizer.step() if epoch % 2 else None")
    loop = loop.replace("optimizer.zero_grad()", "y = next(iter(loader))")
    report = short(PARTS + loop, "loader alone")
    assert len(report.step_time) == 6
    assert sorted(report.step_time)[3] > 2 * 0.004  # two batches for each step and more


def test_no_logging_prints_and_writes_nothing(tmp_path: Path, short):
    report = short(PARTS + TRAIN, "no logging")
    assert len(report.step_time) == 6
    assert (tmp_path / "out").read_text() == ""


def test_no_optimizer_leaves_the_weights(short):
    checked = TRAIN + "        assert torch.equal(before, model.weight)\n"
    report = short(PARTS + checked, "no optimizer")
    assert report.why is None


def test_a_script_that_ends_early_says_so(tmp_path: Path, short):
    report = short(PARTS + "raise ValueError('no data')", "baseline")
    assert report.step_time == ()
    assert "ended with ValueError('no data') after 0 timed steps of 6" in report.why
    assert "line 12" in (tmp_path / "err").read_text()


def test_steps_without_an_optimizer_are_counted_by_backward(short):
    report = short(PARTS + MANUAL, "baseline")
    assert len(report.step_time) == 6


def test_hand_made_batches_cannot_be_replayed(short):
    report = short(PARTS + MANUAL, "compute")
    assert report == ShortRunResult(
        why="no DataLoader was read in training; hand-made batches cannot be replayed"
    )


def test_time_that_is_over_is_said(short):
    loop = TRAIN.replace("optimizer.step()", "optimizer.step(); time.sleep(0.6)")
    report = short(PARTS + loop, "baseline", seconds=1, warm=0)
    assert report.why.startswith("1 s were over after ")


def test_modules_of_the_working_folder_do_not_hide_ours(tmp_path: Path):
    (tmp_path / "statistics.py").write_text("raise ZeroDivisionError")
    (tmp_path / "own.py").write_text("")
    (tmp_path / "train.py").write_text("import own, sys\nassert sys.argv == ['train.py', '--x']")
    request = ShortRunRequest(kind="baseline", result=child.RESULT)
    argv = command(request, ("train.py", "--x"))
    outcome = child.run(argv, limits=child.ProcessLimits(seconds=60), cwd=tmp_path)
    assert outcome.result["why"] == "the script ended after 0 timed steps of 40"


def test_a_profile_names_operators(tmp_path: Path, short):
    report = short(PARTS + TRAIN, "profile")
    assert report.why is None
    place = next(one.place for one in report.operators if one.name == "aten::addmm")
    assert place.file == str(tmp_path / "train.py")
    assert "model(x)" in (tmp_path / "train.py").read_text().splitlines()[place.line - 1]
