"""What a rank needs of a plan, and how several share a model that nobody said it of."""

from dataclasses import replace

import pytest

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.jobs.forecast.memory_forecast import Forecast
from hotloop.jobs.forecast.per_rank_memory import of_rank, on_more_gpus, suits

GB = 10**9
# 1 B parameters in float32, all trained: 4 GB of weights, 4 of gradients, 8 of state.
WHOLE = Forecast(
    micro_batch=8,
    parameters=GB,
    parameters_bytes=4 * GB + 1000,
    gradients_bytes=4 * GB,
    optimizer_bytes=8 * GB,
    activations_bytes=2 * GB,
    peak_bytes=18 * GB + 1000,
    trained_bytes=4 * GB,
    buffers_bytes=1000,
    logits_bytes=None,
    flops=None,
    seconds=0.0,
    left_out="",
    block_bytes=100_000_000,
    outside_bytes=400_000_000,
    trained=GB,
)
FOUR = Plan(micro_batch=8, ranks=4)


def gpu(gigabytes, count=1):
    return Hardware(device="cuda", name="a GPU", memory_bytes=gigabytes * GB, count=count)


def test_with_ddp_a_rank_needs_what_a_process_alone_does():
    assert of_rank(WHOLE, FOUR.plus("ddp")) == WHOLE
    assert of_rank(WHOLE, Plan(micro_batch=8)) == WHOLE


def test_in_rows_it_holds_its_share_and_what_is_gathered():
    found = of_rank(WHOLE, FOUR.plus("fsdp2"))
    assert found.parameters_bytes == GB + 1000, "buffers are whole on each"
    assert found.optimizer_bytes == 2 * GB
    assert found.gradients_bytes == GB
    # two blocks and what is in none, 0.6 GB of weights, and the gradients of as much
    assert found.activations_bytes == 2 * GB + 600_000_000 + 600_000_000
    parts = (
        *(found.parameters_bytes, found.gradients_bytes),
        *(found.optimizer_bytes, found.activations_bytes),
    )
    assert found.peak_bytes == sum(parts) < WHOLE.peak_bytes / 2


def test_gradients_that_are_kept_for_a_window_are_whole():
    window = replace(FOUR, accumulation=4)
    assert of_rank(WHOLE, window.plus("fsdp2")).gradients_bytes == 4 * GB
    assert of_rank(WHOLE, window.plus("fsdp2", keep="off")).gradients_bytes == GB


def test_zero_has_a_copy_of_its_piece_and_a_buffer_to_send_from():
    found = of_rank(WHOLE, FOUR.plus("deepspeed", stage=1))
    assert (found.parameters_bytes, found.gradients_bytes) == (4 * GB + 1000, 4 * GB)
    assert found.optimizer_bytes == 2 * GB + GB, "AdamW's two, and the weights they are of"
    assert found.activations_bytes == 2 * GB + 2 * GB + GB, "500 M numbers, and a piece"
    rows = of_rank(WHOLE, FOUR.plus("deepspeed", stage=3))
    assert (rows.parameters_bytes, rows.gradients_bytes) == (GB + 1000, 4 * GB)
    assert rows.optimizer_bytes == 2 * GB


def test_what_stays_gathered_is_all_of_the_weights():
    found = of_rank(WHOLE, FOUR.plus("fsdp2", reshard="off"))
    assert found.activations_bytes >= 2 * GB + 4 * GB


def test_who_shares_how_goes_by_the_forecast():
    assert suits(WHOLE, FOUR, gpu(24))[0] == "ddp"
    id, reason = suits(WHOLE, FOUR, gpu(16))
    assert (id, "too much" in reason) == ("fsdp2", True)
    id, reason = suits(replace(WHOLE, trained=7 * GB), FOUR, gpu(800))
    assert (id, reason) == ("fsdp2", "7.0 B trained parameters are better kept in rows")


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (gpu(24), None),  # there is one
        (Hardware(device="cpu", name="a CPU", memory_bytes=64 * GB), None),
        (gpu(24, count=4), "1 of 4 is used, and one is enough for the model"),
        (gpu(16, count=4), "in rows over all of them (fsdp2) the run is forecast to fit: "),
        (gpu(6, count=2), "is forecast to be too much still: "),
    ],
)
def test_what_is_said_of_other_gpus(hardware, said):
    found = on_more_gpus(WHOLE, Plan(micro_batch=8), hardware, 8)
    assert (found is None) == (said is None)
    if said is not None:
        assert said in found
        assert f"torchrun --nproc-per-node {hardware.count} -m hotloop train" in found


def test_several_ranks_are_not_advised_to_be_several():
    assert on_more_gpus(WHOLE, FOUR, gpu(24, count=4), 8) is None
