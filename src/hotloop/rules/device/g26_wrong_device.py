"""There is a GPU, and the training runs on the CPU.

Looks at: the device of the models; the NVIDIA driver and what torch sees of it.
Says so when: torch sees a GPU and no model is on it; or there is a driver, and torch sees no GPU.
    Before a run: the latter.
Stays silent when: the models are on the GPU, or there is none.
Remedy: model.to("cuda"), and the batches; or a CUDA build of torch.
Numbers: rounding; a GPU sums in another order, and its random numbers are others.
Seen: golden cases only; not yet seen on a GPU: it needs one, or its driver.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Rule, code_edit, option

__all__ = ["RULE"]

# Minimum driver by CUDA version: https://docs.nvidia.com/deploy/cuda-compatibility/ (2026-11).
DRIVERS = {11: 450, 12: 525, 13: 580}
INSTALL = "https://pytorch.org/get-started/locally/"


def judge(case: Case) -> Finding | None:
    """Compare the available device with the used one."""
    hardware, driver = case.hardware, case.hardware.versions.get("driver")
    model = max(case.models, key=lambda one: one.parameters)  # others may be transforms of the data
    if hardware.device == "cuda" and not case.on_gpu and model.parameters:
        return Finding(
            claim=f"there is a GPU, {hardware.name}, and {model.name} is on the CPU",
            severity="critical",
            places=[model.place] if model.place else [],
            remedies=[code_edit('model.to("cuda"), and each batch as well')],
        )
    if hardware.device != "cpu" or driver is None:
        return None
    return Finding(
        claim=f"there is an NVIDIA driver ({driver}), but torch "
        f"{hardware.versions.get('torch', '')} sees no GPU: the CPU is used",
        severity="critical",
        remedies=[
            option(
                f"install a CUDA build of torch ({INSTALL}), "
                "or look at nvidia-smi and CUDA_VISIBLE_DEVICES"
            )
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    hardware, cuda = case.hardware, planned.torch_cuda
    driver = hardware.versions.get("driver")
    if hardware.device != "cpu" or planned.gpu_here is None:
        return None
    if cuda is None:
        remedy = f"install a CUDA build of torch ({INSTALL})"
    elif driver and _first(driver) < (need := DRIVERS.get(_first(cuda), 0)):
        remedy = f"CUDA {cuda} needs a driver from {need} on, this one is {driver}: update it"
    else:
        remedy = "look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return Finding(
        claim=f"an NVIDIA GPU seems to be here ({planned.gpu_here}), but torch "
        f"{hardware.versions.get('torch', '')} sees no GPU: the CPU is used",
        severity="critical",
        remedies=[option(remedy)],
    )


def _first(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() else 0


RULE = Rule(
    title="A GPU is there, and the CPU trains",
    judge=judge,
    needs=(Needs.MODEL,),
    before_run=_before_run,
    weight=2,
    numerics="rounding",
    known="proved",
)
