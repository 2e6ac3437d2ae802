"""What stands around a script is read, and costs it nothing where it computes."""

import builtins
import contextlib
import io
import json
import sys
from pathlib import Path

from tests.observing import observed

opened, before = builtins.open, io.open


def test_files_that_are_read_are_named_and_those_that_are_not_there(tmp_path):
    here = tmp_path / "settings.json"
    here.write_text('{"a": 1}')

    def train() -> None:
        with open(here) as file:
            json.loads(file.read())
        with open(file=str(tmp_path / "out.txt"), mode="w") as file:
            file.write("x")
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "gone.json").open().close()

    process = observed(train).process
    assert str(here) in process.opened
    assert [Path(path).name for path in process.failed] == ["gone.json"]
    assert not any(path.endswith("out.txt") for path in process.opened)
    assert (builtins.open, io.open) == (opened, before)


def test_no_audit_hook_is_left_in_the_process():
    """One would be called at every id(), so for each parameter of each optimizer step."""
    code = Path(sys.modules["hotloop.probe.surroundings"].__file__ or "").read_text()
    assert "addaudithook" not in code
