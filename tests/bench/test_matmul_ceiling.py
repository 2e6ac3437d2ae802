import pytest
import torch

from hotloop.bench.matmul_ceiling import Ceilings
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan

CPU = Hardware(device="cpu", name="a CPU", cpu_features=frozenset({"avx2"}), cores=2)
GPU = Hardware(
    device="cuda", name="NVIDIA GeForce RTX 3090", capability=(8, 6), memory_bytes=24 << 30
)
PLAN = Plan(micro_batch=1)


class Measured:
    def __init__(self, *rates: float) -> None:
        self.rates, self.asked = list(rates), []

    def __call__(self, device: str, dtype: str) -> Measurement:
        self.asked.append((device, dtype, torch.get_num_threads()))
        return Measurement(unit="FLOP/s", readings=(self.rates.pop(0),))


def test_it_is_measured_once_in_the_precision_of_the_plan_with_its_threads():
    before, measured = torch.get_num_threads(), Measured(1e9)
    ceilings = Ceilings(CPU, threads=3, measure=measured)
    assert ceilings.of(PLAN).median == ceilings.of(PLAN).median == 1e9
    assert measured.asked == [("cpu", "fp32", 3)]
    assert torch.get_num_threads() == before


def test_a_rate_above_the_ceiling_is_refused_with_the_arithmetic():
    ceilings = Ceilings(CPU, measure=Measured(1e9, 1e9))
    assert ceilings.why_impossible(PLAN, 0.9e9) is None
    said = ceilings.why_impossible(PLAN, 2e9)
    assert "2GFLOP/s are above the 1GFLOP/s" in said
    assert "2.00x" in said


def test_before_it_is_refused_the_ceiling_is_measured_again():
    measured = Measured(1e9, 3e9)
    assert Ceilings(CPU, measure=measured).why_impossible(PLAN, 2e9) is None
    assert len(measured.asked) == 2


def test_a_published_peak_above_it_counts():
    low = PLAN.plus("autocast-bf16")
    ceilings = Ceilings(GPU, measure=Measured(1e12, 1e12))
    assert ceilings.why_impossible(low, 60e12) is None, "71 TFLOP/s are published"
    assert ceilings.why_impossible(low, 100e12) is not None


@pytest.mark.parametrize(("plan", "dtype"), [(PLAN, "fp32"), (PLAN.plus("autocast-bf16"), "bf16")])
def test_what_the_hardware_refuses_is_not_its_precision(plan, dtype):
    measured = Measured(1e12, 1e12)
    Ceilings(GPU, measure=measured).of(plan)
    Ceilings(CPU, measure=measured).of(plan)
    assert [asked[1] for asked in measured.asked] == [dtype, "fp32"]
