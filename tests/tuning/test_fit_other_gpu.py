import pytest

from hotloop.core.gpu_specs import gpu_named
from hotloop.jobs import train
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.tuning.fit_other_gpu import MODES, Fit, fits


@pytest.fixture
def found(tiny):
    parts = assemble(fresh_request("char-lm", tiny), train.silent, lambda: None)
    return fits(parts, gpu_named("rtx3090"))


def test_every_size_keeps_the_optimizer_step_and_the_largest_comes_first(found):
    assert {fit.micro_batch * fit.accumulation for fit in found} == {6}
    assert [fit.micro_batch for fit in found] == [6, 3, 2]


def test_smaller_micro_batches_need_less_and_so_does_recomputing(found):
    peaks = [fit.peak_bytes["off"] for fit in found]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[-1]
    assert all(list(fit.peak_bytes) == list(MODES) for fit in found)
    assert found[0].peak_bytes["full"] <= found[0].peak_bytes["off"]


def test_a_tenth_of_the_gpu_stays_free():
    tight = Fit(micro_batch=1, accumulation=1, peak_bytes={"off": 95}, room_bytes=90)
    assert not tight.fits("off")
