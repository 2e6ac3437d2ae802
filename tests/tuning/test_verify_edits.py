"""Edits are printed where a run with them shows their effect, and only there."""

from functools import partial
from pathlib import Path

import pytest
from tests.preloaded import run_child

from hotloop.core.plan import Plan, Use
from hotloop.process import child
from hotloop.tuning.verify_edits import verify_edits

FIXED = """\
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
import neighbour

kind = sys.argv[1]
net = torch.nn.Linear(4, 1)
if kind == "adam":
    optimizer = torch.optim.AdamW(net.parameters())
else:
    optimizer = neighbour.sgd(net)
loader = DataLoader(TensorDataset(torch.ones(64, 4)), batch_size=2)
for step, (x,) in enumerate(loader):
    out = net(x)
    (out.float() ** 2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    shown = out.detach().{shown}
torch.save(net.state_dict(), "net.pt")
"""
NEIGHBOUR = (
    "import torch\n\n\ndef sgd(net):\n    return torch.optim.SGD(net.parameters(), lr=0.1)\n"
)
BF16, FUSED, WORKERS = (
    Use.of("autocast-bf16"),
    Use.of("fused-adamw"),
    Use.of("loader-workers", count=1),
)


@pytest.fixture
def suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preloaded):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child, "run", partial(run_child, preloaded))
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)

    def run(*uses: Use, shown: str = "tolist()", kind: str = "adam"):
        path = tmp_path / "train.py"
        path.write_text(FIXED.format(shown=shown))
        found = verify_edits(path, [kind], Plan(micro_batch=1, techniques=uses))
        assert sorted(each.name for each in tmp_path.iterdir() if each.name[0] not in "._") == [
            "neighbour.py",
            "train.py",
        ]
        return found

    return run


def test_edits_that_are_in_effect_are_printed(suggested) -> None:
    found = suggested(FUSED, WORKERS)
    assert "+    optimizer = torch.optim.AdamW(net.parameters(), fused=True)" in found.diff
    assert "num_workers=1" in found.diff
    assert not any("left out" in said for said in found.notes)


def test_an_edit_without_effect_in_this_run_is_said_in_words(suggested) -> None:
    found = suggested(FUSED, WORKERS, kind="sgd")
    assert "fused" not in found.diff
    assert "num_workers=1" in found.diff
    assert "fused-adamw: left out, for it has no effect there" in found.notes


def test_an_edit_with_which_the_script_fails_is_said_in_words(suggested) -> None:
    found = suggested(BF16, FUSED, shown="numpy()")
    assert "autocast" not in found.diff
    assert "fused=True" in found.diff
    (said,) = (said for said in found.notes if "left out" in said)
    assert said.startswith("autocast-bf16: left out, for the script fails with it: TypeError")


def test_autocast_is_read_back_from_what_the_training_computes_in(suggested) -> None:
    assert "+    with torch.autocast(" in suggested(BF16).diff
