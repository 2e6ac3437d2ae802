import re
import subprocess
from pathlib import Path

import pytest

from hotloop.core.errors import UsageError
from hotloop.core.plan import Plan
from hotloop.suggest import suggest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "slow").glob("*/train.py"))
SCRIPT = '''\
"""Trains."""

import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(2, 1)
opt = torch.optim.AdamW(
    model.parameters(),
    lr=1e-3,
)
loader = DataLoader([torch.ones(2)] * 8, batch_size=4, shuffle=True, num_workers=0)
for epoch in range(2):
    for x in loader:
        loss = model(
            x
        ).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
'''


def made(folder: Path, *ids: str, source: str = SCRIPT) -> tuple[list[str], tuple[str, ...]]:
    path = folder / "train.py"
    path.write_text(source)
    plan = Plan(micro_batch=1)
    for id in ids:
        plan = plan.plus(id)
    found = suggest(path, plan)
    changed = [line for line in found.diff.splitlines() if re.match(r"[-+](?![-+])", line)]
    return changed, found.said


def test_a_keyword_is_added_where_the_optimizer_is_built(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "fused-adamw")
    assert changed == ["-    lr=1e-3,", "+    lr=1e-3, fused=True"]
    assert said == ()


def test_a_keyword_that_is_there_is_replaced(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "loader-workers")
    assert "num_workers=2, persistent_workers=True)" in changed[1]
    assert "another order" in said[0]


def test_the_call_of_the_model_goes_under_autocast_with_all_its_lines(tmp_path: Path) -> None:
    changed, _ = made(tmp_path, "autocast-bf16")
    assert [line for line in changed if line.startswith("+")] == [
        "+        with torch.autocast(next(model.parameters()).device.type, torch.bfloat16):",
        "+            loss = model(",
        "+                x",
        "+            ).mean()",
    ]


def test_switches_follow_the_imports_and_compile_stands_before_the_loop(tmp_path: Path) -> None:
    changed, _ = made(tmp_path, "tf32", "compile")
    assert '+torch.set_float32_matmul_precision("high")' in changed
    assert any(line.startswith("+model.compile()") for line in changed)


def test_what_has_no_safe_place_is_said_in_words(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "sdpa", "sample-cache", "fused-adamw", source="x = 1\n")
    assert changed == []
    assert len(said) == 3


def test_an_edited_script_runs(tmp_path: Path) -> None:
    made(tmp_path, "fused-adamw")
    plan = Plan(micro_batch=1).plus("fused-adamw").plus("gc-freeze").plus("autocast-bf16")
    diff = suggest(tmp_path / "train.py", plan).diff
    name = (tmp_path / "train.py").as_posix().lstrip("/")
    assert diff.startswith(f"--- a/{name}\n+++ b/{name}\n")
    patch = ["patch", "--quiet", str(tmp_path / "train.py")]
    done = subprocess.run(patch, input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout
    compile((tmp_path / "train.py").read_text(), "train.py", "exec")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_can_be_edited(path: Path) -> None:
    plan = Plan(micro_batch=1)
    for id in ("autocast-bf16", "compile", "fused-adamw", "loader-workers", "tf32", "gc-freeze"):
        plan = plan.plus(id)
    found = suggest(path, plan)
    assert found.diff or found.said


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read as Python"):
        made(tmp_path, "tf32", source="def (")
