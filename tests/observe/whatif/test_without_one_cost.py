import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hotloop.observe.whatif.without_one_cost import Patches, no_optimizer, no_writing


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.undo()


class Fresh(torch.optim.SGD):
    """A class whose `step` PyTorch has not wrapped yet, as in a new process."""

    def step(self, closure=None):
        return super().step(closure)


def test_no_optimizer_changes_nothing_but_calls_closure_and_hooks(patches: Patches):
    no_optimizer(patches)
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Fresh([weight], lr=1.0)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps `step` of the instance
    weight.sum().backward()
    assert optimizer.step(lambda: (weight * 3).sum()).item() == 6
    optimizer.step()
    assert weight.tolist() == [1, 1]
    assert seen == [1, 1]


def test_what_is_put_back_is_as_before(patches: Patches):
    before = vars(torch.optim.Optimizer)["profile_hook_step"]
    no_optimizer(patches)
    assert vars(torch.optim.Optimizer)["profile_hook_step"] is not before
    patches.undo()
    assert vars(torch.optim.Optimizer)["profile_hook_step"] is before


def test_files_below_the_folder_stay_as_they_are(tmp_path: Path, patches: Patches):
    inside, outside = tmp_path / "in", tmp_path / "out.txt"
    inside.mkdir()
    (inside / "old.txt").write_text("old")
    no_writing(patches, str(inside))
    for mode in ("w", "a", "x"):
        with open(inside / "new.txt", mode) as stream:
            stream.write("spam")
    (inside / "old.txt").write_text("new")
    outside.write_text("kept")
    with open(inside / "old.txt", "r+") as stream:
        assert stream.read() == "old"
    patches.undo()
    assert [path.name for path in inside.iterdir()] == ["old.txt"]
    assert outside.read_text() == "kept"


def test_no_logging_silences_print_stdout_logging_saves_and_trackers(tmp_path: Path):
    (tmp_path / "wandb.py").write_text("def log(*_):\n    raise ZeroDivisionError")
    code = (
        "import logging, os, sys\n"
        "from hotloop.process.import_hooks import ImportHooks\n"
        "from hotloop.observe.whatif.without_one_cost import Patches, no_logging\n"
        "no_logging(Patches(), ImportHooks())\n"
        "sys.path.insert(0, '.')\n"
        "import torch, wandb\n"
        "print('a'); print('b', file=sys.stderr)\n"
        "sys.stdout.write('c'); os.write(1, b'd'); logging.error('e')\n"
        "torch.save({}, 'f.pt'); wandb.log({})\n"
        "sys.stderr.write('end')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"end")
    assert not (tmp_path / "f.pt").exists()
