import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hotloop.core.errors import DeviceError
from hotloop.core.storage.files import Disk
from hotloop.jobs.forecast.forecast_cache import remembered
from hotloop.jobs.forecast.memory_forecast import Forecast

KEY = {"settings": {"model.width": 8, "training.betas": (0.9, 0.99)}, "plan": {"micro_batch": 2}}
MADE = Forecast(
    micro_batch=2,
    parameters=10,
    parameters_bytes=40,
    gradients_bytes=40,
    optimizer_bytes=84,
    activations_bytes=100,
    peak_bytes=264,
    trained_bytes=40,
    buffers_bytes=0,
    logits_bytes=None,
    flops=None,
    seconds=0.5,
    left_out="workspaces",
)


class Maker:
    """Makes a forecast, and counts how often."""

    def __init__(self, forecast: Forecast = MADE) -> None:
        self.forecast, self.calls = forecast, 0

    def __call__(self) -> Forecast:
        self.calls += 1
        return self.forecast


def entry_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_the_second_time_it_is_read_and_says_when_it_was_made(tmp_path: Path) -> None:
    make = Maker()
    first, second = (remembered(tmp_path / "new" / "folder", KEY, make) for _ in range(2))
    assert make.calls == 1
    assert first == MADE
    assert first.made is None
    assert second.made is not None
    assert replace(second, made=None) == MADE


@pytest.mark.parametrize(
    "other",
    [
        {**KEY, "plan": {"micro_batch": 4}},
        {**KEY, "settings": {**KEY["settings"], "model.width": 9}},
        {**KEY, "more": 1},
        {"plan": KEY["plan"]},
    ],
)
def test_another_job_or_plan_has_another_forecast(other: dict[str, object], tmp_path: Path) -> None:
    remembered(tmp_path, KEY, Maker())
    make = Maker(replace(MADE, parameters=11))
    assert remembered(tmp_path, other, make).parameters == 11
    assert make.calls == 1
    assert remembered(tmp_path, KEY, make).parameters == 10


@pytest.mark.parametrize(
    ("switch", "back"),
    [
        (
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
        ),
        (
            lambda: torch.backends.cuda.enable_flash_sdp(False),
            lambda: torch.backends.cuda.enable_flash_sdp(True),
        ),
    ],
)
def test_a_switch_of_torch_that_decides_is_part_of_the_key(
    switch: Callable[[], None], back: Callable[[], None], tmp_path: Path
) -> None:
    make = Maker()
    remembered(tmp_path, KEY, make)
    switch()
    try:
        remembered(tmp_path, KEY, make)
    finally:
        back()
    remembered(tmp_path, KEY, make)
    assert make.calls == 2


def changed(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def in_forecast(path: Path, **fields: object) -> None:
    changed(path, forecast={**json.loads(path.read_text())["forecast"], **fields})


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "binary": lambda path: path.write_bytes(b"\x00\xff" * 100),
    "a list": lambda path: path.write_text("[]"),
    "nested too deep": lambda path: path.write_text("[" * 100_000),
    "another schema": lambda path: changed(path, schema=2),
    "no schema": lambda path: changed(path, schema=None),
    "a digit": lambda path: in_forecast(path, peak_bytes=164),
    "a word for a number": lambda path: in_forecast(path, peak_bytes="264"),
    "another key": lambda path: changed(path, key={}),
    "a field too many": lambda path: in_forecast(path, more=1),
    "another day": lambda path: changed(path, made="2020-01-01"),
    "no forecast": lambda path: changed(path, forecast=None),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_or_foreign_counts_as_absent_and_is_replaced(
    damage: Callable[[Path], object], tmp_path: Path
) -> None:
    make = Maker()
    remembered(tmp_path, KEY, make)
    damage(entry_in(tmp_path))
    assert remembered(tmp_path, KEY, make) == MADE
    assert make.calls == 2
    assert remembered(tmp_path, KEY, make).made is not None
    assert make.calls == 2


def test_the_entry_of_another_key_under_this_name_is_not_taken(tmp_path: Path) -> None:
    other = tmp_path / "other"
    remembered(tmp_path / "mine", KEY, Maker())
    remembered(other, {"plan": 1}, Maker(replace(MADE, parameters=11)))
    mine = entry_in(tmp_path / "mine")
    mine.write_bytes(entry_in(other).read_bytes())
    assert remembered(tmp_path / "mine", KEY, Maker()).parameters == 10


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    assert remembered(tmp_path, KEY, Maker(), disk=Disk(write=full)) == MADE
    assert list(tmp_path.iterdir()) == []
    blocked = tmp_path / "a file"
    blocked.touch()
    assert remembered(blocked, KEY, Maker()) == MADE


def test_a_folder_in_the_place_of_the_entry_is_no_error(tmp_path: Path) -> None:
    remembered(tmp_path, KEY, Maker())
    path = entry_in(tmp_path)
    path.unlink()
    path.mkdir()
    assert remembered(tmp_path, KEY, Maker()) == MADE


def test_what_making_raises_is_raised_and_nothing_is_kept(tmp_path: Path) -> None:
    def make() -> Forecast:
        raise DeviceError("its step reads tensor values")

    with pytest.raises(DeviceError):
        remembered(tmp_path, KEY, make)
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_read_whole_entries_only(tmp_path: Path) -> None:
    wrong: list[Forecast] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(10):
            got = remembered(tmp_path, KEY, Maker())
            if replace(got, made=None) != MADE:
                wrong.append(got)
            for path in tmp_path.glob("*.json"):
                path.unlink(missing_ok=True)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
