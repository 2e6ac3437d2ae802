from itertools import count

import pytest
import torch

from hotloop.core.errors import ConfigError, DeviceError
from hotloop.machine.matmul_rate import measure_gemm


def ticking(seconds: float):
    """A clock that moves on by `seconds` at every reading, whatever the machine does."""
    ticks = count()
    return lambda: next(ticks) * seconds


def test_flops_are_two_n_cubed_over_the_time():
    measured = measure_gemm("cpu", "fp32", budget_s=0.1, clock=ticking(0.01))
    assert measured.unit == "FLOP/s"
    assert measured.source == "measured"
    assert measured.readings == pytest.approx([2 * 256**3 / 0.01] * 10)
    assert measured.why_unstable() is None


def test_products_grow_until_one_is_long_enough():
    times = iter([0.001, 0.002, 0.001] * 2)  # of the two first sizes; then 8 ms each
    now = 0.0
    odd = False

    def clock() -> float:
        nonlocal now, odd
        now += next(times, 0.008) if odd else 0.0
        odd = not odd
        return now

    measured = measure_gemm("cpu", "fp32", budget_s=0.0, clock=clock)
    assert measured.readings == pytest.approx([2 * 1024**3 / 0.008] * 5)


def test_there_are_five_readings_even_without_budget():
    assert measure_gemm("cpu", "fp32", budget_s=0.0, clock=ticking(0.01)).n == 5


def test_a_real_measurement_is_plausible():
    measured = measure_gemm("cpu", "fp32", budget_s=0.05)
    assert measured.n >= 5
    assert 1e8 < measured.median < 1e15


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_no_trace_is_left(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        kept = torch.get_rng_state()
        switches = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
        was = [switch.fp32_precision for switch in switches]
        measure_gemm("cpu", "fp32", budget_s=0.0, clock=ticking(0.01))
        assert [switch.fp32_precision for switch in switches] == was
        assert torch.get_float32_matmul_precision() == precision
        assert torch.equal(torch.get_rng_state(), kept)
        assert torch.is_grad_enabled()
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_misspelt_dtype_is_refused():
    with pytest.raises(ConfigError, match="did you mean bf16"):
        measure_gemm("cpu", "bf61")


def test_tf32_is_refused_on_a_cpu():
    with pytest.raises(DeviceError, match="use fp32"):
        measure_gemm("cpu", "tf32")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_an_absent_gpu_is_refused():
    with pytest.raises(DeviceError, match="not there"):
        measure_gemm("cuda", "fp32")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_on_a_gpu(dtype):
    measured = measure_gemm("cuda", dtype)
    assert measured.median > 1e12
