from pathlib import Path

import pytest

from hotloop.observe.whatif import ceilings
from hotloop.observe.whatif.ceilings import measure, profile
from hotloop.observe.whatif.short_run import ShortRunResult

SLOW_READING = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset
assert os.environ["HOTLOOP_CHILD"] == "1"
class Data(Dataset):
    def __len__(self): return 12
    def __getitem__(self, index):
        time.sleep(0.040)
        return torch.randn(4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1000):
    for x in DataLoader(Data(), batch_size=2):
        time.sleep(0.020)
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow  # three processes that import torch
def test_the_compute_ceiling_is_the_factor_that_reading_costs(tmp_path: Path):
    (tmp_path / "train.py").write_text(SLOW_READING)
    told: set[str] = set()
    found = measure(
        ["train.py"],
        cwd=tmp_path,
        steps=8,
        names=["compute"],
        progress=lambda name, beat: told.add(name),
    )
    baseline, compute = found
    assert (baseline.name, len(baseline.step_time), baseline.factor) == ("baseline", 16, None)
    assert compute.why_not is None
    assert 3 < compute.factor < 5.5  # (2 * 40 + 20) / 20 without the step's own time
    assert told == {"baseline", "compute"}


def test_without_a_baseline_there_is_no_ceiling_and_a_reason(tmp_path: Path):
    (tmp_path / "train.py").write_text("raise ValueError('no data')")
    baseline, compute, alone, *_ = measure(["train.py"], cwd=tmp_path)
    assert "ValueError('no data')" in baseline.why_not
    assert compute.why_not == f"there is no baseline: {baseline.why_not}"
    assert (alone.factor, alone.step_time) == (None, ())


def test_a_profile_that_cannot_be_has_its_reason(tmp_path: Path):
    (tmp_path / "train.py").write_text("print('no torch here')")
    assert profile(["train.py"], cwd=tmp_path).why_not == "the script ended"


def test_a_script_that_is_not_there_is_a_reason(tmp_path: Path):
    found = measure(["none.py"], cwd=tmp_path)
    assert "there is no script 'none.py'" in found[0].why_not


def reports(*medians: float) -> dict:
    kinds = ["baseline", "compute", "baseline"]
    made: dict = {}
    for kind, median in zip(kinds, medians, strict=True):
        made.setdefault(kind, []).append(ShortRunResult(step_time=(median,) * 8))
    return made


@pytest.mark.parametrize(
    ("medians", "factor"), [((2, 1, 2), 2), ((1.0, 1.0, 1.05), 1.025), ((1, 0.2, 1.5), 6.25)]
)
def test_a_factor_is_the_baseline_over_what_is_left(medians, factor):
    assert ceilings._ceilings(reports(*medians), ["compute"])[1].factor == pytest.approx(factor)


def test_what_is_smaller_than_the_machines_own_change_cannot_be_told():
    compute = ceilings._ceilings(reports(1.0, 0.9, 1.3), ["compute"])[1]
    assert compute.factor is None
    assert compute.why_not == "cannot be told: two runs without any change differ by 30%"
