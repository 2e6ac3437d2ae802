"""The process of the canary: no file of the user changes, and the script reaches its steps."""

import hashlib
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from hotloop.core.plan import Plan
from hotloop.tuning.canary import CanaryTarget
from hotloop.tuning.trial_process import TrialEnded, TrialProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

PLAIN = Plan(micro_batch=1)
STEPS = """
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(net.parameters())
while True:
    optimizer.zero_grad()
    net(torch.randn(2, 4)).mean().backward()
    optimizer.step()
"""
# It writes in every way, and goes on only if it reads what it wrote.
WRITES = """
import os, pathlib, shutil, sys, tempfile
assert sys.stdin.read() == ""
assert os.environ["WANDB_MODE"] == "disabled"
with open("log.txt", "a") as log:
    log.write("more")
assert pathlib.Path("log.txt").read_text() == "oldmore"
os.makedirs(sys.argv[1], exist_ok=True)
pathlib.Path(sys.argv[1], "note.txt").write_text("new")
pathlib.Path.home().joinpath(".canary-was-here").write_text("x")
os.remove("removed.txt")
os.replace("moved.txt", "gone.txt")
shutil.rmtree("folder")
tempfile.NamedTemporaryFile(delete=False).write(b"x")
import torch
torch.save({"a": torch.ones(3)}, "net.pt")
assert torch.load("net.pt")["a"].sum() == 3
"""


def digests(folder: Path) -> dict[str, str]:
    """Return what lies in a folder, with a digest of each file and its time."""
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mtime_ns} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder")
        for path in folder.rglob("*")
    }


def start(folder: Path, script: str, *args: str, plan: Plan = PLAIN) -> TrialProcess:
    (folder / "train.py").write_text(textwrap.dedent(script))
    target = CanaryTarget(command=("train.py", *args), cwd=folder)
    return target.start(plan)


def test_a_script_that_writes_sees_its_writes_and_no_file_changes(tmp_path: Path):
    work, other = tmp_path / "work", tmp_path / "other"
    for name in ("log.txt", "removed.txt", "moved.txt", "folder/kept.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("old")
    other.mkdir()
    (other / "note.txt").write_text("old")
    (work / "train.py").write_text(WRITES + STEPS)
    before = digests(tmp_path)
    script = CanaryTarget(command=("train.py", str(other)), cwd=work)

    with script.start(PLAIN) as process:
        try:
            report = process.first(seconds=120)
        except TrialEnded as error:
            if "PermissionError" in process.stderr + error.reason:
                pytest.skip("no overlay can be mounted here")
            raise

    assert report.at == 1
    assert digests(tmp_path) == before
    assert not Path.home().joinpath(".canary-was-here").exists()


def test_a_process_that_is_killed_or_raises_leaves_its_words(tmp_path: Path):
    with start(tmp_path, f"import os\nos.kill(os.getpid(), {signal.SIGKILL.value})") as process:
        with pytest.raises(TrialEnded, match="SIGKILL") as ended:
            process.first(seconds=120)
        assert ended.value.outcome == "killed"
    with start(tmp_path, "raise ValueError('planted')") as process:
        with pytest.raises(TrialEnded) as ended:
            process.first(seconds=120)
        assert ended.value.outcome == "failed"
    assert process.stderr.splitlines()[-1] == "ValueError: planted"


def test_a_module_is_run_as_one_with_the_techniques(tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text(f"assert __spec__ is not None\n{STEPS}")
    target = CanaryTarget(command=("-m", "package.train", "--lr", "1"), cwd=tmp_path)
    with target.start(PLAIN.plus("fused-adamw")) as process:
        report = process.first(seconds=120)
    assert report.more["effects"]["fused-adamw"][0] == "in effect"
