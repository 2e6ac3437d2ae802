"""`git apply` takes the diffs of files that it is particular about, and the copy runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.core.plan import Plan
from hotloop.diagnosis.diff import Suggested, suggest
from hotloop.tuning import edited_copy as module
from hotloop.tuning.edited_copy import NO_GIT, edited_copy, why_not_applied

SCRIPT = (
    "import torch\n"
    "net = torch.nn.Linear(1, 1)\n"
    "if net:\n"
    "\toptimizer = torch.optim.AdamW(\n"
    "\t\tnet.parameters(),\n"
    "\t)\n"
    "print(optimizer.defaults['fused'], torch.get_num_threads())\n"
)
PLAN = Plan(micro_batch=1).plus("fused-adamw").plus("threads", count=1)


def git(folder: Path, *words: str, text: str = "") -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@y", *words]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode()


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def output(script: Path, suggested: Suggested) -> str:
    with edited_copy(script, suggested) as copy:
        return subprocess.check_output([sys.executable, str(copy)], text=True)


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        SCRIPT.removesuffix("\n"),
        SCRIPT.replace("\n", "\r\n"),
        SCRIPT.replace("\n", "\r\n").removesuffix("\r\n"),
        "\ufeff" + SCRIPT,
        SCRIPT.replace("import torch\n", '"""Ö\x0c\x1c\u2028"""\nimport torch\n'),
        SCRIPT.replace("net =", "  \nnet =").replace("print(", "s = 'a\\r'\nprint("),
    ],
    ids=["tabs", "no end", "CRLF", "CRLF, no end", "BOM", "odd separators", "spaces at ends"],
)
def test_git_applies_the_diff_of_a_file_with(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "train.py", text)
    git(tmp_path, "init", "-q")
    suggested = suggest(path, PLAN)
    assert why_not_applied(suggested) is None
    assert output(path, suggested) == "True 1\n"
    git(tmp_path, "apply", text=f"python train.py --bf16\n{suggested.diff}")  # as it is printed
    after = path.read_bytes()
    assert after == suggested.files[path]
    assert after.count(b"\r\n") in (0, after.count(b"\n")), "the ends of lines are of one kind"
    assert after.startswith(b"\xef\xbb\xbf") == text.startswith("\ufeff")


@pytest.mark.parametrize("name", ["sub/train.py", "sub folder/träin.py", "a'b/tr[ai]n.py"])
@pytest.mark.parametrize("here", [".", "elsewhere", "sub"])
def test_names_start_from_the_top_of_the_repository_wherever_hotloop_runs(
    name: str, here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / name, SCRIPT)
    (tmp_path / here).mkdir(exist_ok=True)
    git(tmp_path, "init", "-q")
    monkeypatch.chdir(tmp_path / here)
    script = Path(os.path.relpath(tmp_path / name))
    suggested = suggest(script, PLAN)
    assert suggested.root == tmp_path
    assert why_not_applied(suggested) is None
    git(tmp_path, "apply", text=suggested.diff)
    assert b"fused=True" in (tmp_path / name).read_bytes()


def test_names_start_from_the_current_folder_outside_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = written(tmp_path / "sub" / "train.py", SCRIPT)
    monkeypatch.chdir(tmp_path)
    suggested = suggest(script, PLAN)
    assert suggested.diff.startswith("--- a/sub/train.py\n+++ b/sub/train.py\n")
    assert why_not_applied(suggested) is None


def test_a_link_to_a_script_is_edited_where_the_script_is(tmp_path: Path) -> None:
    script = written(tmp_path / "real" / "train.py", SCRIPT)
    link = tmp_path / "train.py"
    link.symlink_to(script)
    git(tmp_path, "init", "-q")
    suggested = suggest(link, PLAN)
    assert suggested.diff.startswith("--- a/real/train.py\n")
    git(tmp_path, "apply", text=suggested.diff)
    assert link.is_symlink()
    assert b"fused=True" in script.read_bytes()


def test_a_module_that_the_script_imports_is_edited_and_run(tmp_path: Path) -> None:
    script = written(
        tmp_path / "run" / "train.py",
        "import torch\nfrom lib.build import optimizer\nprint(optimizer.defaults['fused'])\n"
        "print(open(__file__.replace('run/train.py', 'data.txt')).read())\n",
    )
    written(tmp_path / "run" / "lib" / "__init__.py", "")
    written(tmp_path / "run" / "lib" / "sizes.py", "OUT = 1\n")
    built = written(
        tmp_path / "run" / "lib" / "build.py",
        "from torch import nn, optim\nfrom .sizes import OUT\n"
        "optimizer = optim.Adam(nn.Linear(1, OUT).parameters())\n",
    )
    written(tmp_path / "data.txt", "beside it")
    git(tmp_path, "init", "-q")
    suggested = suggest(script, Plan(micro_batch=1).plus("fused-adamw"))
    assert list(suggested.files) == [built]
    assert "+++ b/run/lib/build.py\n" in suggested.diff
    assert why_not_applied(suggested) is None
    assert output(script, suggested) == "True\nbeside it\n"
    assert "fused" not in built.read_text()


def test_a_diff_that_git_refuses_is_told_with_its_words(tmp_path: Path) -> None:
    suggested = suggest(written(tmp_path / "train.py", SCRIPT), PLAN)
    (tmp_path / "train.py").write_text("x = 1\n")
    said = why_not_applied(suggested)
    assert said is not None
    assert said.startswith("git apply refuses the diff: error: ")


def test_without_git_it_is_said_that_nothing_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested = suggest(written(tmp_path / "train.py", SCRIPT), PLAN)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    assert why_not_applied(suggested) == NO_GIT
