"""hotloop run --with, from outside: exit codes, streams, files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.preloaded import Preloaded

from hotloop.core.plan import Plan
from hotloop.core.proved_run import run_identity
from hotloop.machine.identity import identity

SCRIPT = """\
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(3e-4)
        return torch.full((4,), float(index))

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(net.parameters())
for epoch in range(2):
    for x in DataLoader(Data(), batch_size=4, shuffle=True):
        loss = net(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
torch.save(net.state_dict(), "net.pt")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def hotloop(tmp_path: Path, preloaded: Preloaded):
    """Return what runs a command of hotloop beside a script."""

    def run(*words: str, script: str = SCRIPT) -> subprocess.CompletedProcess:
        (tmp_path / "train.py").write_text(script)
        return preloaded.run(*words, cwd=tmp_path)

    return run


def start(folder: Path, *command: str, script: str = SCRIPT) -> subprocess.CompletedProcess:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script)
    return subprocess.run(
        (sys.executable, *command), cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_a_run_with_bitwise_techniques_is_the_scripts_own_and_says_what_was_put_in(
    tmp_path: Path,
) -> None:
    plain = start(tmp_path / "a", "train.py", "3")
    uses = ("--with", "loader-workers:count=1,gc-freeze", "--json", "found.json")
    done = start(tmp_path / "b", "-m", "hotloop", "run", *uses, "train.py", "3")
    assert (done.returncode, done.stdout) == (3, plain.stdout), done.stderr
    assert (tmp_path / "a/net.pt").read_bytes() == (tmp_path / "b/net.pt").read_bytes()
    assert "1 loader processes, 2 batches ahead each" in done.stderr
    assert done.stderr.count("in effect") == 3
    said = "in effect when the script failed: gc-freeze, loader-workers(count=1); without them: "
    assert done.stderr.endswith(f"hotloop: {said}python train.py 3\n")
    assert "with gc-freeze, loader-workers: 8 losses equal bit for bit" in done.stderr
    assert "next: train.py:" in done.stderr
    assert json.loads((tmp_path / "b/found.json").read_text())["schema"] == 1


@pytest.mark.slow
def test_a_script_whose_workers_are_taken_away_writes_the_same_files(tmp_path: Path) -> None:
    workers = SCRIPT.replace("shuffle=True)", "shuffle=True, num_workers=2)")
    plain = start(tmp_path / "a", "train.py", "3", script=workers)
    uses = ("--with", "loader-workers:count=0")
    done = start(tmp_path / "b", "-m", "hotloop", "run", *uses, "train.py", "3", script=workers)
    assert (done.returncode, done.stdout) == (3, plain.stdout), done.stderr
    assert (tmp_path / "a/net.pt").read_bytes() == (tmp_path / "b/net.pt").read_bytes()
    assert "batches are made in the loop (it had 2)" in " ".join(done.stderr.split())


def test_a_typed_technique_that_cannot_work_stops_before_the_script(
    tmp_path: Path, hotloop
) -> None:
    done = hotloop("run", "--with", "loader-workers:count=9999", "train.py")
    assert done.returncode == 78
    assert "9999 loader processes" in done.stderr
    assert not (tmp_path / "net.pt").exists()
    assert not (tmp_path / ".hotloop").exists()


@pytest.mark.parametrize(("samples", "said"), [(24, False), (25, True)])
def test_other_data_than_a_plan_was_proved_on_are_named(
    tmp_path: Path, hotloop, samples: int, said: bool
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    run = run_identity(("train.py", "0"), tmp_path)
    proof = {"measured": identity(), "proved_for": {**run, "data": f"Data of {samples} samples"}}
    plan = Plan(micro_batch=1).plus("gc-freeze").to_json() | proof
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = hotloop("run", "--plan", "plan.json", "train.py", "0")
    assert done.returncode == 0, done.stderr
    sentence = "hotloop: the plan was proved on Data of 25 samples, not on Data of 24 samples. "
    assert (sentence in done.stderr) is said
    assert "the plan was proved" not in done.stderr.replace(sentence, "")


@pytest.mark.parametrize("uses", [(), ("--with", "lagged-loss-read")])
def test_suggest_needs_something_to_suggest_and_runs_nothing(tmp_path: Path, hotloop, uses) -> None:
    done = hotloop("run", "--suggest", *uses, "train.py", "0")
    assert done.returncode in (2, 78)
    assert done.stdout == ""
    assert not (tmp_path / "net.pt").exists()


def test_suggest_prints_a_diff_with_which_steps_were_made(tmp_path: Path, hotloop) -> None:
    uses = ("--suggest", "--with", "fused-adamw")
    done = hotloop("run", *uses, "train.py", "0")
    assert done.returncode == 0
    assert done.stderr == (
        "hotloop: the diff applies and runs; its time was not compared with the plan's: 6 steps "
        "are sure to be made, and 28 are needed\n"
    )
    assert "+optimizer = torch.optim.AdamW(net.parameters(), fused=True)" in done.stdout
    assert not (tmp_path / "net.pt").exists()


WORKERS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("code")
parser.add_argument("--workers", type=int, default=0)
options = parser.parse_args()
import sys
sys.argv[1:] = [options.code]
"""


def test_suggest_prints_the_changed_command_line_that_was_run(tmp_path: Path, hotloop) -> None:
    script = WORKERS + SCRIPT.replace(
        "shuffle=True)", "shuffle=True, persistent_workers=options.workers > 0, "
        "num_workers=options.workers)"
    )  # fmt: skip
    uses = ("--suggest", "--with", "loader-workers:count=1")
    done = hotloop("run", *uses, "train.py", "0", script=script)
    assert (done.returncode, done.stdout) == (0, "python train.py 0 --workers 1\n"), done.stderr
    assert done.stderr.splitlines()[-1] == (
        "hotloop: the changed command line runs; its time was not compared with the plan's: 6 "
        "steps are sure to be made, and 28 are needed"
    )
    done = hotloop("run", "--edit-defaults", *uses, "train.py", "0", script=script)
    assert '+parser.add_argument("--workers", type=int, default=1)' in done.stdout.splitlines()
    assert done.stdout.startswith("--- ")
    assert not (tmp_path / "net.pt").exists()


def test_edit_defaults_without_suggest_is_refused(tmp_path: Path, hotloop) -> None:
    done = hotloop("run", "--edit-defaults", "--with", "fused-adamw", "train.py", "0")
    assert done.returncode == 2
    assert "--edit-defaults belongs to --suggest" in done.stderr
    assert not (tmp_path / "net.pt").exists()


def test_a_script_that_fails_without_any_change_is_refused(tmp_path: Path, hotloop) -> None:
    script = SCRIPT.replace("loss.backward()", "raise KeyError('lost')")
    done = hotloop("run", "--suggest", "--with", "fused-adamw", "train.py", "0", script=script)
    assert (done.returncode, done.stdout) == (2, "")
    assert "train.py fails without any change as well: " in done.stderr
    assert "KeyError: 'lost'" in done.stderr


FAILS_LATE = """\
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(net.parameters())
for step in range(4):
    loss = net(torch.ones(2, 4)).mean()
    loss.backward()
    optimizer.step()
    if step == 2:
        raise IndexError("Target 53 is out of bounds.\\nmore")
"""


def test_a_script_that_fails_names_what_was_put_in_and_nothing_where_nothing_was(hotloop) -> None:
    uses = ("--with", "fused-adamw,gc-freeze,channels-last")
    done = hotloop("run", "-q", *uses, "train.py", script=FAILS_LATE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "hotloop: in effect when the script failed: fused-adamw, gc-freeze; without them: "
        "python train.py"
    )
    traceback, _, after = done.stderr.partition("IndexError: Target 53 is out of bounds.\nmore\n")
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert after.count("\n") == 1
    uses = ("--with", "channels-last")
    done = hotloop("run", "-q", *uses, "train.py", script=FAILS_LATE)
    assert done.returncode == 1
    assert "hotloop:" not in done.stderr
