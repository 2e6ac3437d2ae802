"""A script under `hotloop run`, started as a user starts it; what it leaves behind."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.core.errors import HotloopError
from hotloop.diagnosis.script import judge_again, place_for
from hotloop.process.run_script import ScriptTarget

CHILD = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def start(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "hotloop", *command),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | variables,
    )


@pytest.fixture
def forked(tmp_path, preloaded):
    """Return what does `start` in a fork that has torch already."""

    def start(*command: str) -> subprocess.CompletedProcess[str]:
        return preloaded.run(*command, cwd=tmp_path)

    return start


def test_a_script_without_torch_leaves_a_folder_that_can_be_judged_again(tmp_path):
    script = (
        "import sys\nprint(sys.argv[1:])\nprint('note', file=sys.stderr)\nsys.exit('no data')\n"
    )
    (tmp_path / "train.py").write_text(script)
    seen = start(tmp_path, "run", "--out", "kept", "train.py", "--lr", "1")
    assert (seen.returncode, seen.stdout) == (1, "['--lr', '1']\n")
    assert seen.stderr.startswith("note\n")
    assert seen.stderr.endswith("no data\n"), "said by Python, last"
    assert "Traceback" not in seen.stderr
    case, diagnosis = judge_again(tmp_path / "kept")
    assert (case.arguments, case.steps.count) == (("--lr", "1"), 0)
    assert case.stopped == "no data"
    assert not diagnosis.findings or case.process.other_cores is not None
    record = json.loads((tmp_path / "kept" / "run.json").read_text())
    assert (record["status"], record["command"]) == ("failed", ["train.py", "--lr", "1"])


def test_secrets_of_the_command_line_are_in_no_file(tmp_path, forked):
    script = f"{CHILD}import sys\nraise ValueError(f'no login with {{sys.argv[2]}}')\n"
    (tmp_path / "train.py").write_text(script)
    given = ["--api-key", "s3cr3t-4711", "--password=hunter2-x", "--db", "pg://me:pw-0815@host/x"]
    seen = forked("doctor", "--out", "kept", "train.py", *given)
    assert "no login with s3cr3t-4711" in seen.stderr, "the script's own words are its own"
    for path in (tmp_path / "kept").rglob("*"):
        text = path.read_text(errors="replace") if path.is_file() else ""
        assert not re.search("s3cr3t-4711|hunter2-x|pw-0815", text), path
    record = json.loads((tmp_path / "kept" / "run.json").read_text())
    assert record["command"][1:] == [
        "--api-key",
        "***",
        "--password=***",
        "--db",
        "pg://me:***@host/x",
    ]


FAILS = f"""{CHILD}
from torch.optim.lr_scheduler import StepLR

scheduler = StepLR(optimizer, 3)
torch.ones(2).reshape(3)  # line 12: PyTorch raises
scheduler.step()
"""


@pytest.mark.parametrize(
    ("code", "said", "steps"),
    [
        (FAILS, "train.py raised RuntimeError: shape '[3]' is invalid for input of size 2", 12),
        ("import torch\n\n\ntorch.ones(2).reshape(3)", "train.py raised RuntimeError: shape", 0),
        ("import sys\nsys.exit(3)", "train.py ended with exit code 3 (train.py:2)", 0),
        (f"{CHILD}\nraise KeyError", "train.py raised KeyError (train.py:9)", 12),
        ("import nothing_of_the_sort", "train.py raised ModuleNotFoundError: No module", 0),
    ],
)
def test_of_a_script_that_raised_the_error_is_said_first_and_nothing_of_what_was_not_reached(
    code, said, steps, tmp_path, forked
):
    (tmp_path / "train.py").write_text(code)
    seen = forked("doctor", "--out", "kept", "train.py")
    assert seen.returncode == (3 if "exit(3)" in code else 1)
    told = " ".join(seen.stderr.split())
    assert said in told
    assert "ran to its end" not in told
    assert re.search(rf"ended after {steps}( of 12)? steps: ", told)
    case, diagnosis = judge_again(tmp_path / "kept")
    assert case.raised is not None
    loud = {finding.rule for finding in diagnosis.findings if finding.severity != "note"}
    assert not any(rule.startswith("S7") for rule in loud), "the schedule's step was not reached"
    assert steps or not loud


def test_an_exit_code_after_the_training_is_no_early_end(tmp_path, forked):
    (tmp_path / "train.py").write_text(f"{CHILD}\nimport sys\nsys.exit(3)")
    seen = forked("doctor", "--out", "kept", "train.py")
    assert seen.returncode == 3
    assert "ran to its end: 12 steps" in seen.stderr
    assert "exit code" not in seen.stderr


def test_the_process_that_trains_may_be_a_child(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "train.py").write_text(
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.executable, 'child.py']).returncode + 5)\n"
    )
    seen = start(tmp_path, "run", "-q", "--out", "kept", "train.py")
    assert (seen.returncode, seen.stdout, seen.stderr) == (5, "", "")
    case, _ = judge_again(tmp_path / "kept")
    assert case.steps.count == 12
    assert case.script == str(tmp_path / "child.py")
    assert case.sources[case.script] == CHILD


def test_a_child_whose_environment_we_refuse_runs_on(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys\n"
        "command = [sys.executable, '-c', 'import torch; print(torch.ones(1).item())']\n"
        "sys.exit(subprocess.run(command, env=os.environ | {'RANK': '1'}).returncode)\n"
    )
    seen = start(tmp_path, "run", "-q", "train.py")
    assert (seen.returncode, seen.stdout) == (0, "1.0\n")
    assert seen.stderr.startswith("hotloop: a child process is not observed: ConfigError: RANK=1")
    assert "Traceback" not in seen.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is POSIX's")
def test_a_forked_child_that_leaves_by_sys_exit_reports_nothing(tmp_path):
    (tmp_path / "train.py").write_text(
        f"import os, sys\n{CHILD}\npid = os.fork()\nif pid == 0:\n    sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    seen = start(tmp_path, "doctor", "--full", "train.py")
    assert (seen.returncode, seen.stdout) == (0, "3\n"), seen.stderr
    assert seen.stderr.count("run folder:") == 1


def test_a_script_that_forbids_torch_is_reported(tmp_path):
    (tmp_path / "train.py").write_text("import sys\nsys.modules['torch'] = None\n")
    seen = start(tmp_path, "doctor", "--full", "train.py")
    assert seen.returncode == 0
    assert "run folder:" in seen.stderr
    assert "its own report failed" not in seen.stderr


def test_a_thread_may_still_import_of_torch_when_the_script_is_over(tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, threading, time, torch\n"
        "def work():\n    import torch._dynamo\n    print('imported')\n"
        "threading.Thread(target=work).start()\n"
        "while 'torch._dynamo.utils' not in sys.modules:\n    time.sleep(0.001)\n"
    )
    seen = start(tmp_path, "doctor", "--full", "train.py")
    assert (seen.returncode, seen.stdout) == (0, "imported\n"), seen.stderr
    assert "fault" not in seen.stderr
    assert "its own report failed" not in seen.stderr


@pytest.mark.slow
def test_spawned_and_elastic_children_are_observed(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "spawns.py").write_text(
        "import multiprocessing, runpy\n"
        "def work():\n    runpy.run_path('child.py')\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start()\n    process.join()\n    raise SystemExit(process.exitcode)\n"
    )
    assert start(tmp_path, "run", "-q", "--out", "spawned", "spawns.py").returncode == 0
    assert judge_again(tmp_path / "spawned")[0].steps.count == 12
    elastic = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "child.py")
    seen = start(tmp_path, "run", "-q", "--out", "ranks", *elastic)
    assert seen.returncode == 0, seen.stderr
    assert judge_again(tmp_path / "ranks")[0].steps.count == 12
    assert len(list((tmp_path / "ranks" / "children").glob("case-*.json"))) == 2


GROUP = CHILD.replace("import torch\n", "import torch, torch.distributed as group\n", 1).replace(
    "    optimizer.step()",
    "    group.all_reduce(next(model.parameters()).grad)\n    optimizer.step()",
)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "steps"), [(("--steps", "5"), 5), (("--time", "0.1"), 200)])
def test_the_ranks_of_a_group_stop_together_and_the_first_tells_for_all(tmp_path, limit, steps):
    (tmp_path / "train.py").write_text(
        GROUP.replace("model =", "group.init_process_group('gloo')\nmodel =", 1).replace(
            "12", "300"
        )
    )
    seen = subprocess.run(
        (
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "hotloop", "doctor", *limit, "train.py"),
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert seen.returncode == 0, seen.stderr
    assert seen.stderr.count("run folder:") == 1
    [folder] = (tmp_path / ".hotloop").glob("train-*")
    case, _ = judge_again(folder)
    assert (case.steps.count, case.process.world, case.process.backend) == (steps, 2, "gloo")
    assert [len(figures) for figures in case.process.ranks.values()] == [2] * len(
        case.process.ranks
    )
    assert case.process.ranks["step"][1] > 0


def test_the_folder_is_named_after_the_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = place_for(ScriptTarget(name="a b/train it.py", is_module=False), None)
    assert folder.parent == tmp_path / ".hotloop"
    assert folder.name.startswith("train-it-")
    assert not folder.exists()
    module = place_for(ScriptTarget(name="package.train", is_module=True), None)
    assert module.name.startswith("package.train-")
    assert place_for(ScriptTarget(name="a.py", is_module=False), Path("x")) == tmp_path / "x"


def test_a_folder_that_is_not_there_is_not_judged(tmp_path):
    with pytest.raises(HotloopError, match="nowhere"):
        judge_again(tmp_path / "nowhere")
