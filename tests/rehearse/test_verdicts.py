"""The answers about a script on a simulated card, from what was seen of it."""

from dataclasses import replace

import pytest

from hotloop.core.case.environment import Raised
from hotloop.core.case.rehearsal import CardStep, RehearsedRun
from hotloop.nullcard.cards import CARDS
from hotloop.rehearse.kernel_kinds import BF16, CONVOLUTIONS, EFFICIENT, FLASH, kinds_of
from hotloop.rehearse.verdicts import not_shown, verdicts

T4, RTX4090, H100 = CARDS["t4"], CARDS["rtx4090"], CARDS["h100"]
STEP = CardStep(seconds=0.002, launches=40)
RAN = RehearsedRun(
    torch="2.11.0+cu130",
    architectures=("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    warm=3,
    steps=(STEP,) * 5,
    ended="5 steps were counted",
    launches=320,
    peak_reserved=4 << 30,
    peak_allocated=3 << 30,
)


def answers(card, run):
    return {one.question: one for one in verdicts(card, run)}


def test_a_script_that_makes_steps_starts_and_fits():
    said = answers(RTX4090, RAN)
    assert (said["starts"].answer, said["memory"].answer) == ("yes", "yes")
    assert said["starts"].text == "it made 8 optimizer steps on the RTX 4090"
    assert said["memory"].text == (
        "at most 4 GiB reserved at once, 3 GiB of it in tensors: 17% of the 23.5 GiB that the "
        "card reports"
    )


@pytest.mark.parametrize(
    ("architectures", "answer"),
    [
        (("sm_80", "sm_86", "sm_90"), "yes"),  # machine code of 8.6 runs on 8.9
        (("sm_90", "sm_120"), "no"),
        (("sm_90", "compute_80"), "yes"),  # PTX runs on all that comes later
        (("sm_75", "compute_90"), "no"),
        (("sm_100a", "sm_90a"), "no"),
        ((), "yes"),  # unknown: nothing is claimed
    ],
)
def test_a_wheel_must_have_code_for_the_card(architectures, answer):
    starts = answers(RTX4090, replace(RAN, architectures=architectures))["starts"]
    assert starts.answer == answer
    if answer == "no":
        assert "does not fit the card: it has kernels for" in starts.text
        assert architectures[0] in starts.text


@pytest.mark.parametrize(
    ("kind", "text", "answer", "says"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried", "no", "make the micro batch smaller"),
        ("AcceleratorError", "CUDA error: out of memory", "no", "make the micro batch smaller"),
        ("RuntimeError", "FlashAttention only supports Ampere GPUs or newer.", "no", "scaled_dot"),
        ("RuntimeError", "no kernel image is available for execution", "no", "wheel"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "unknown", "be simulated"),
        ("PermissionError", "[Errno 13] Permission denied: 'x'", "unknown", "--unshielded"),
        ("LocalEntryNotFoundError", "Cannot find", "unknown", "download what it needs"),
        ("ModuleNotFoundError", "No module named 'x'", "unknown", "install what it needs"),
        ("AssertionError", "no loss", "yes", "on the Tesla T4, then raised AssertionError; all"),
    ],
)
def test_a_script_that_raised(kind, text, answer, says):
    starts = answers(T4, replace(RAN, steps=(), raised=Raised(kind=kind, text=text)))["starts"]
    assert starts.answer == answer
    assert says in f"{starts.text} {starts.remedy}"


def test_a_script_that_raised_before_its_first_step():
    raised = Raised(kind="AssertionError", text="no loss")
    starts = answers(T4, replace(RAN, steps=(), warm=0, raised=raised))["starts"]
    assert (starts.answer, "run it on the CPU" in starts.remedy) == ("unknown", True)


def test_a_recipe_that_is_refused():
    raised = Raised(kind="PlanError", text="bf16 needs compute capability 8.0")
    run = replace(RAN, is_recipe=True, steps=(), warm=0, raised=raised)
    starts = answers(T4, run)["starts"]
    assert (starts.answer, starts.text) == (
        "no",
        "hotloop train refuses it after 0 optimizer steps, with the error below",
    )


@pytest.mark.parametrize(("made", "says"), [(1, "1 backward pass on"), (4, "4 backward passes on")])
def test_a_script_without_an_optimizer_is_counted_by_backward_passes(made, says):
    run = replace(RAN, unit="backward pass", warm=made - 1, steps=(STEP,))
    assert says in answers(RTX4090, run)["starts"].text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"torch": None, "architectures": ()}, "did not import torch"),
        ({"launches": 0}, "gave the card nothing to do"),
        ({"steps": (), "warm": 0}, "made no step: 5 steps were counted"),
    ],
)
def test_what_is_not_known_is_said(change, says):
    starts = answers(RTX4090, replace(RAN, **change))["starts"]
    assert starts.answer == "unknown"
    assert says in starts.text


def test_bf16_and_flash_attention_need_ampere():
    run = replace(RAN, kernels=(BF16, EFFICIENT))
    assert set(answers(RTX4090, run)) == {"starts", "memory"}
    said = answers(T4, run)
    assert set(said) == {"starts", "memory", "bf16", "attention"}
    assert "GradScaler" in said["bf16"].remedy
    assert "bf16" not in answers(T4, replace(RAN, kernels=(FLASH,)))


def test_little_room_for_what_is_not_counted_is_no_yes():
    memory = answers(RTX4090, replace(RAN, peak_reserved=23 << 30))["memory"]
    assert memory.answer == "unknown"
    assert "what is not counted here may not fit beside it" in memory.text


def test_memory_that_was_refused_is_told():
    text = answers(RTX4090, replace(RAN, largest_refused=True))["memory"].text
    assert "the card refused memory at least once" in text


def test_what_a_simulated_card_cannot_show_is_listed():
    said = " ".join(not_shown(replace(RAN, kernels=(CONVOLUTIONS,)), shielded=True))
    for part in ("losses", "the speed of kernels", "cuDNN", "no network", "2 ms of the host"):
        assert part in said
    assert "cuDNN" not in " ".join(not_shown(RAN, shielded=False))


def test_a_script_that_reads_values_is_told_so():
    reads = replace(STEP, waits={"cudaStreamSynchronize": 1})
    said = " ".join(not_shown(replace(RAN, steps=(reads,)), shielded=True))
    assert "what the script decides by values" in said
    assert "decides by values" not in " ".join(not_shown(RAN, shielded=True))


def test_kinds_of_kernels():
    names = [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add"
        "<c10::BFloat16>, std::array<char*, 3ul> >(int)",
        "void pytorch_flash::flash_fwd_kernel<...>",
    ]
    assert kinds_of(names) == (BF16, FLASH)
    assert kinds_of(["fmha_cutlassF_f16_aligned_64x64_rf_sm75"]) == (EFFICIENT,)
    assert kinds_of(["void at::native::im2col_kernel<float>(long)"]) == (CONVOLUTIONS,)
    assert kinds_of([]) == ()
