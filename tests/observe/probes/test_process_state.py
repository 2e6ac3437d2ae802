"""What stands around a script is read, and costs it nothing where it computes."""

import builtins
import contextlib
import importlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from tests.observing import observed

opened, before = builtins.open, io.open


def test_files_that_are_read_are_named_and_those_that_are_not_there(tmp_path, monkeypatch):
    here = tmp_path / "settings.json"
    here.write_text('{"a": 1}')
    library = tmp_path / "site-packages" / "hotloop_test_library.py"  # as it is imported
    library.parent.mkdir()
    library.write_text("try:\n    open('version.txt')\nexcept FileNotFoundError:\n    pass\n")
    monkeypatch.syspath_prepend(str(library.parent))

    def train() -> None:
        with open(here) as file:
            json.loads(file.read())
        with open(file=str(tmp_path / "out.txt"), mode="w") as file:
            file.write("x")
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "gone.json").open().close()
        importlib.import_module("hotloop_test_library")
        (tmp_path / "later.csv").write_text("1")
        (tmp_path / "later.csv").open().close()
        (tmp_path / "later.csv").unlink()

    process = observed(train).process
    assert str(here) in process.opened
    assert [Path(path).name for path in process.failed] == ["gone.json"]
    assert [Path(place.file).name for place in process.failed_at] == [Path(__file__).name]
    assert not any(path.endswith("out.txt") for path in process.opened)
    assert (builtins.open, io.open) == (opened, before)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory as files")
def test_shared_memory_is_read_while_it_is_used():
    def train() -> None:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.write(bytes(4 << 20))
            file.flush()
            weight = torch.nn.Parameter(torch.ones(1))
            optimizer = torch.optim.SGD([weight], lr=0.1)
            for _ in range(3):
                weight.sum().backward()
                optimizer.step()

    assert observed(train).process.shm_used > 0, "it was freed before the end"


def test_no_audit_hook_is_left_in_the_process():
    """One would be called at every id(), so for each parameter of each optimizer step."""
    code = Path(sys.modules["hotloop.observe.probes.process_state"].__file__ or "").read_text()
    assert "addaudithook" not in code


def test_debugging_aids_of_a_with_block_are_read_while_the_steps_run():
    def train(around: contextlib.AbstractContextManager[object]) -> None:
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        with around:
            for _ in range(3):
                weight.sum().backward()
                optimizer.step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's, that it is on
        checked = torch.autograd.detect_anomaly()
    on = observed(lambda: train(checked)).process.switches
    off = observed(lambda: train(contextlib.nullcontext())).process.switches
    assert (on["anomaly_detection"], off["anomaly_detection"]) == ("True", "False")
    assert (on["profiler"], off["profiler"]) == ("False", "False")


def test_what_the_script_writes_through_stays(monkeypatch):
    said = []

    class Tee:
        def __init__(self) -> None:
            self.write = said.append

    def train() -> None:
        monkeypatch.setattr(sys, "stdout", Tee())

    observed(train)
    print("at the end")
    assert "at the end" in said


def test_lines_are_kept_with_where_they_were_printed_and_bars_leave_room_for_others():
    def train() -> None:
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for done in range(400):
            print(f"Map: {done / 4:.0f}%|{'#' * (done // 40)} | {done}/400 [00:01, 99 rows/s]")
        for step in range(3):
            weight.sum().backward()
            optimizer.step()
            print(f"step {step}: 12 rows/s")

    process = observed(train).process
    lines = list(zip(process.output, process.output_at, strict=True))
    assert len(lines) == 20 + 3
    assert [updates for _, (updates, _) in lines] == [0] * 20 + [1, 2, 3]
    times = [at for _, (_, at) in lines]
    assert times == sorted(times)
    assert times[0] >= 0


def test_a_script_that_sets_the_newer_switch_of_float32_precision_is_looked_at():
    matmul = torch.backends.cuda.matmul

    def train() -> None:
        matmul.fp32_precision = "tf32"  # torch.get_float32_matmul_precision() raises from here on

    try:
        case = observed(train)
    finally:
        matmul.fp32_precision = "none"
    assert case.process.switches["cuda.matmul.fp32_precision"] == "tf32"
    assert case.process.switches["float32_matmul_precision"] == "mixed"
    assert not [said for said in case.not_checked if "fault" in said]
