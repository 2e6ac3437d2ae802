"""Judges what was seen on a simulated card: does the script start there, does it fit, what is slow.

Each answer says what it was judged by. What a simulated card cannot show is listed, not guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.core import errors
from hotloop.core.case.rehearsal import Verdict
from hotloop.core.hardware import HEAD_ROOM
from hotloop.core.units import bytes_, many, moment
from hotloop.machine.torch_build import TorchBuild
from hotloop.rehearse.kernel_kinds import BF16, CONVOLUTIONS, EFFICIENT, FLASH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.environment import Raised
    from hotloop.core.case.rehearsal import Answer, RehearsedRun
    from hotloop.nullcard.cards import Card

__all__ = ["is_out_of_memory", "not_shown", "verdicts"]

_AMPERE: Final = (8, 0)  # the first with bf16 in its tensor cores, and with FlashAttention 2
# What torch says where a card lacks something: a part of the text, and the remedy.
_LACKS: Final = (
    (
        "FlashAttention only supports Ampere",
        "take scaled_dot_product_attention, which chooses a kernel that the card has",
    ),
    (
        "no kernel image is available",
        "install a wheel of torch that has code for this card, or build torch for it",
    ),
    ("does not support bfloat16", "use float16 with torch.amp.GradScaler"),
    ("out of resource: shared memory", "choose smaller blocks for the Triton kernel"),
)
# torch's allocator, CUDA, and a recipe whose micro batch cannot be halved.
_FULL: Final = ("OutOfMemoryError", "CUDA error: out of memory", "DeviceError: out of memory")
# Libraries of NVIDIA's that run here and find no card: their errors say nothing about the card.
_NO_CARD_FOUND: Final = ("CUDNN", "cuDNN", "CUFFT", "cuFFT", "CUSPARSE", "CUSOLVER", "NCCL")
_DENIED: Final = ("PermissionError", "Read-only file system")
_OFFLINE: Final = ("LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "URLError")


def verdicts(card: Card, run: RehearsedRun) -> tuple[Verdict, ...]:
    """Return the answers; the first one is to "starts"."""
    return (_starts(card, run), *_memory(card, run), *_precision(card, run))


def _starts(card: Card, run: RehearsedRun) -> Verdict:
    name = card.short_name
    if run.torch is None:
        return _start("unknown", f"the {run.what} did not import torch: {run.ended}")
    if (why := TorchBuild(arches=run.architectures).why_not(card.capability)) is not None:
        return _start(
            "no",
            f"torch {run.torch} does not fit the card: {why}",
            "install a wheel of torch that has code for it, or build torch for it",
        )
    if run.raised is not None:
        return _crashed(card, run)
    if not run.launches:
        return _start(
            "unknown",
            f"the {run.what} gave the card nothing to do ({run.ended})",
            "let it choose the device cuda, such as by its own option",
        )
    if not run.made:
        return _start("unknown", f"it gave the card work, but made no step: {run.ended}")
    return _start("yes", f"it made {_steps(run)} on the {name}")


def _steps(run: RehearsedRun) -> str:
    unit = "backward passe" if run.unit == "backward pass" and run.made != 1 else run.unit
    return many(run.made, unit)


def _start(answer: Answer, text: str, remedy: str | None = None) -> Verdict:
    return Verdict(question="starts", answer=answer, text=text, remedy=remedy)


def _crashed(card: Card, run: RehearsedRun) -> Verdict:
    assert run.raised is not None
    said, after = run.raised.said, _steps(run)
    if is_out_of_memory(run.raised):
        return _start(
            "no",
            f"the {bytes_(card.memory_bytes)} of the {card.short_name} do not suffice: the "
            f"{run.what} raised {run.raised.kind} after {after}",
            "make the micro batch smaller (hotloop explain out-of-memory)",
        )
    if run.is_recipe and run.raised.kind in errors.__all__:
        return _start("no", f"hotloop train refuses it after {after}, with the error below")
    for part, remedy in _LACKS:
        if part in said:
            return _start("no", f"the {card.short_name} lacks what the {run.what} asks for", remedy)
    if any(part in said for part in _DENIED):
        return _start(
            "unknown",
            "the script writes where a rehearsal lets it write nothing",
            "rehearse with --unshielded, which lets it write its files",
        )
    if run.raised.kind == "ModuleNotFoundError":
        return _start(
            "unknown",
            f"the script needs a package that this environment lacks, after {after}",
            "install what it needs into the environment of this torch",
        )
    if any(part in said for part in _OFFLINE):
        return _start(
            "unknown",
            "the script needs the network, which a rehearsal has not",
            "download what it needs first, or rehearse with --unshielded",
        )
    if any(part in said for part in _NO_CARD_FOUND):
        return _start("unknown", "a library of CUDA that cannot be simulated ended the script")
    why = "all values are 0 here, so a check of values fails that would hold on the card"
    remedy = "run it on the CPU: if it raises there too, the card is not the cause"
    if run.made:
        text = f"it made {after} on the {card.short_name}, then raised {run.raised.kind}; {why}"
        return _start("yes", text, remedy)
    return _start("unknown", f"the {run.what} raised {run.raised.kind}; {why}", remedy)


def is_out_of_memory(raised: Raised) -> bool:
    """Whether an exception says that the card's memory does not suffice.

    `torch.AcceleratorError` has the text of CUDA's error 2 where no allocator of torch asked.
    """
    said = raised.said
    return any(part in said for part in _FULL)


def _memory(card: Card, run: RehearsedRun) -> Iterator[Verdict]:
    if not run.peak_reserved:
        return
    share = run.peak_reserved / card.memory_bytes
    needed = (
        "" if run.peak_allocated is None else f", {bytes_(run.peak_allocated)} of it in tensors"
    )
    text = (
        f"at most {bytes_(run.peak_reserved)} reserved at once{needed}: {share:.0%} of the "
        f"{bytes_(card.memory_bytes)} that the card reports"
    )
    if run.raised is None and run.largest_refused:
        text += "; the card refused memory at least once, and torch freed its cache to go on"
    fits: Answer = "yes" if run.made else "unknown"
    if share > HEAD_ROOM:
        fits = "unknown"
        text += "; what is not counted here may not fit beside it"
    if run.raised is not None and is_out_of_memory(run.raised):
        fits = "no"
    yield Verdict(question="memory", answer=fits, text=text)


def _precision(card: Card, run: RehearsedRun) -> Iterator[Verdict]:
    """Say what the card's capability costs; nothing where it costs nothing."""
    if card.capability >= _AMPERE:
        return
    if BF16 in run.kernels:
        yield Verdict(
            question="bf16",
            answer="no",
            text=f"the script computes in bf16, for which capability {_number(card)} has no "
            "tensor cores",
            remedy="use float16 with torch.amp.GradScaler",
        )
    if EFFICIENT in run.kernels and FLASH not in run.kernels:
        yield Verdict(
            question="attention",
            answer="no",
            text="attention takes the memory-efficient kernel, as FlashAttention needs "
            "capability 8.0",
        )


def _number(card: Card) -> str:
    return "{}.{}".format(*card.capability)


def not_shown(run: RehearsedRun, *, shielded: bool) -> tuple[str, ...]:
    """Return what this rehearsal cannot say."""
    said = [
        "losses and metrics: kernels compute nothing, every value is 0, and a branch on a value "
        "takes that side",
        "the speed of kernels: none ran",
        "memory of the CUDA context, of loaded kernels and of cuBLAS's workspaces, which a card "
        "takes besides",
        "what comes after the counted steps: evaluations, saves, longer rows",
    ]
    if run.step_waits:
        said.append(
            "what the script decides by values: in each step it reads some, at the lines that "
            "wait, and all are 0"
        )
    if CONVOLUTIONS in run.kernels:
        said.append(
            "convolutions by cuDNN: torch's own kernels ran in its place, so launches and memory "
            "of convolutions are other ones on a card"
        )
    if shielded:
        said.append("files that the script writes: none was changed, and it had no network")
    if run.host_seconds is not None and run.launches:
        said.append(
            f"the driver's time for a launch: the {moment(run.host_seconds)} of the host in a "
            "step are without it"
        )
    return tuple(said)
