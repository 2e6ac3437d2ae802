"""The canary of hotloop run, from outside: what it leaves out and alone, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.paths import ROOT
from tests.preloaded import Preloaded

from hotloop.core.proved_run import run_identity
from hotloop.machine.identity import identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

SCRIPT = """\
import os, sys
import torch

said = sys.stdin.read()
with open("log.txt", "a") as log:
    log.write(said)
os.makedirs("out", exist_ok=True)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(net.parameters())
for step in range(20):
    loss = (net(torch.randn(8, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.save(net.state_dict(), f"out/{step}.pt")
print(loss.item())
sys.exit(int(sys.argv[1]))
"""
# Python runs it at the start of each process of the canary, but not in the forked real run.
PLANTED = """\
import functools, os, signal, time

def planted(how, plain, session, **choice):
    changed = plain(session, **choice)
    if how == "hang":
        time.sleep(3600)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    seen = []
    def before(optimizer, args, kwargs):
        seen.append(optimizer)
        if how == "raise" and len(seen) == 3:
            raise RuntimeError("planted here")
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.data.mul_(1.001 if how == "loss" else 1)
    session.optimizer.register_step_pre_hook(before)
    return changed

if os.environ.get("HOTLOOP_CHILD"):
    from hotloop import techniques
    for pair in os.environ["PLANTED"].split(","):
        id, _, how = pair.partition("=")
        bad = techniques.get(id)
        object.__setattr__(bad, "apply", functools.partial(planted, how, bad.apply))
"""
USES = ("--with", "fused-adamw,gc-freeze")


@pytest.fixture
def run(tmp_path: Path, preloaded: Preloaded):
    """Return what runs hotloop run on the script, with faults planted into the canary."""
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "sitecustomize.py").write_text(PLANTED)
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(SCRIPT)
    (work / "log.txt").write_text("old ")

    def start(*words: object, planted: str | None = None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ)
        if planted is not None:
            paths = (tmp_path / "planted", ROOT / "src", os.environ.get("PYTHONPATH", ""))
            env |= {"PLANTED": planted, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        return preloaded.run("run", "--out", "kept", *words, cwd=work, env=env)

    start.folder = work  # type: ignore[attr-defined]
    return start


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "kept" not in path.parts}


def effects(folder: Path) -> dict[str, tuple[str, str]]:
    rows = json.loads((folder / "kept" / "run.json").read_text())["effects"]
    return {row["technique"]: (row["word"], row["how"]) for row in rows}


def test_what_raises_is_left_out_and_the_run_goes_on_with_the_others(run):
    done = run(*USES, "train.py", "3", planted="gc-freeze=raise")
    lines = done.stderr.splitlines()
    why = "the script raises RuntimeError: planted here after 2 steps"
    assert lines[0] == f"hotloop: the canary left out gc-freeze: {why}"
    assert lines[1] == "   Traceback (most recent call last):"
    assert 'File "' in done.stderr
    assert "train.py" in lines[2]
    (took,) = [line for line in lines if line.startswith("hotloop: the canary took ")]
    assert "; the run goes on with fused-adamw; with fused-adamw: 8 losses " in took
    assert done.returncode == 3
    assert len(done.stdout.splitlines()) == 1  # the script's own, once
    found = effects(run.folder)
    assert found["fused-adamw"][0] == "in effect"
    assert found["gc-freeze"] == ("refused", f"the canary left it out: {why}")
    assert (run.folder / "log.txt").read_text() == "old "  # the canary appended nothing
    plan = json.loads((run.folder / "kept" / "plan.json").read_text())
    assert list(plan["techniques"]) == ["fused-adamw"]


def test_what_changes_the_losses_beyond_its_promise_is_left_out(run):
    done = run("--with", "gc-freeze", "-q", "train.py", "0", planted="gc-freeze=loss")
    (line,) = done.stderr.splitlines()
    assert line.startswith("hotloop: the canary left out gc-freeze: losses differ: ")
    assert line.endswith(", allowed 0.0e+00)")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert [word for word, _ in effects(run.folder).values()] == ["refused"]


@pytest.mark.slow
def test_what_kills_the_process_or_hangs_is_left_out(run):
    planted = "fused-adamw=hang,gc-freeze=kill"
    done = run(*USES, "--canary", "20", "-q", "train.py", "0", planted=planted)
    lines = sorted(done.stderr.splitlines())
    assert len(lines) == 2
    assert "left out fused-adamw: the first step had not come after " in lines[0]
    assert "left out gc-freeze: the script's process ended: it was killed by SIGKILL" in lines[1]
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


def test_no_canary_tries_nothing(run):
    done = run(*USES, "--no-canary", "train.py", "0", planted="gc-freeze=raise")
    assert done.returncode == 0
    assert "canary" not in done.stderr
    assert {word for word, _ in effects(run.folder).values()} == {"in effect"}


def test_a_plan_that_was_proved_for_this_run_is_not_tried_unless_asked_for(run, monkeypatch):
    monkeypatch.chdir(run.folder)
    command = ("train.py", "0")
    proof = {"measured": identity(), "proved_for": run_identity(command, Path.cwd())}
    plan = {"schema": 1, "micro_batch": 1, "techniques": {"gc-freeze": {}}, **proof}
    Path("plan.json").write_text(json.dumps(plan))
    assert "canary" not in run("--plan", "plan.json", *command).stderr
    asked = run("--plan", "plan.json", "--out", "b", "--canary", "60", *command).stderr
    assert "with gc-freeze: 8 losses equal bit for bit" in asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--canary", "5"), "--canary tries techniques: name them with --with or --plan"),
        (("--canary", "0", *USES), "--canary 0: a time above 0 s is needed"),
        (("--canary", "5", "--suggest", *USES), "leave --canary out"),
        (("--canary", "5", "--no-canary", *USES), "not allowed with argument --canary"),
    ],
)
def test_a_canary_that_cannot_be_meant_is_refused(run, words, said):
    done = run(*words, "train.py", "0")
    assert done.returncode == 2
    assert said in done.stderr
    assert files(run.folder) == {"train.py", "log.txt"}


def ranks(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", 2), ("LOCAL_RANK", rank)):
        monkeypatch.setenv(name, str(value))


def test_several_ranks_have_no_canary_and_one_that_is_asked_for_is_refused(run, monkeypatch):
    ranks(monkeypatch, 0)
    asked = run("--canary", "5", *USES, "train.py", "0")
    assert asked.returncode == 2
    said = "it starts one process, and this run has 2 ranks"
    assert f"--canary cannot be had here: {said}" in asked.stderr
    ranks(monkeypatch, 1)
    second = run(*USES, "train.py", "0")
    assert "canary" not in second.stderr
    assert second.returncode == 0


WAITS = """\
import sys, time
print("child", file=sys.stderr)
open("started.txt", "w").write("x")
time.sleep(3600)
"""


def test_ctrl_c_in_the_canary_ends_all(run):
    (run.folder / "train.py").write_text(WAITS)
    argv = (sys.executable, "-m", "hotloop", "run", *USES, "train.py")
    started = subprocess.Popen(
        argv, cwd=run.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        tree = below(started.pid)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
    assert (started.returncode, out, err) == (130, "", "hotloop: stopped\n")
    assert not [process for process in tree if is_alive(process)]
    assert files(run.folder) == {"train.py", "log.txt"}


def below(pid: int) -> list[psutil.Process]:
    """Return the processes below one, once the script is among them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        tree = psutil.Process(pid).children(recursive=True)
        if any("canary_trial" in command_of(process) for process in tree):
            return tree
        time.sleep(0.05)
    raise AssertionError("the canary did not start")


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it ended since, or is a zombie
        return ""


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_the_standard_input_is_the_real_runs(run):
    argv = (sys.executable, "-m", "hotloop", "run", *USES, "train.py", "0")
    where = {"cwd": run.folder, "timeout": 240}
    done = subprocess.run(argv, input="typed", capture_output=True, text=True, **where)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert (run.folder / "log.txt").read_text() == "old typed"
    assert done.stderr.count("canary") == 1
