"""What the installed torch was built for, and whether this machine seems to have an NVIDIA GPU."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TorchBuild", "torch_build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """The build, as torch reports it."""

    cuda: str | None = None  # version; None: without CUDA
    hip: str | None = None
    arches: tuple[str, ...] = ()  # "sm_86" has kernels, "compute_90" can be compiled for later ones
    gpu_here: str | None = None  # evidence of an NVIDIA GPU, whatever torch sees

    def why_not(self, capability: tuple[int, int]) -> str | None:
        """Return why no kernel of this build runs on a GPU of `capability`, or None.

        Kernels of sm_XY run on X.Z with Z >= Y, and those of compute_XY on all later GPUs.
        Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (binary and PTX
        compatibility, 2026-11).
        """
        if not self.arches:  # unknown
            return None
        for arch in self.arches:
            kind, _, digits = arch.partition("_")
            number = digits.rstrip("af")  # sm_90a: only for 9.0, which the test of `same` ensures
            if not number.isdecimal() or len(number) < 2:
                continue
            built = int(number[:-1]), int(number[-1])
            if kind == "compute" and built <= capability:
                return None
            same = built == capability or (digits == number and built <= capability)
            if kind == "sm" and built[0] == capability[0] and same:
                return None
        major, minor = capability
        return f"it has kernels for {', '.join(self.arches)}, and the GPU is sm_{major}{minor}"


def torch_build(
    *,
    torch: Any = None,
    driver: str | None = None,
    which: Callable[[str], str | None] = shutil.which,
    dev: Path = Path("/dev"),
) -> TorchBuild:
    """Describe the installed torch. `torch`, `which` and `dev` are seams."""
    if torch is None:
        import torch
    gpu = f"a driver ({driver})" if driver else None
    if gpu is None and which("nvidia-smi"):
        gpu = "nvidia-smi"
    if gpu is None and (dev / "nvidiactl").exists():
        gpu = "/dev/nvidiactl"
    arches = torch.cuda.get_arch_list() if torch.version.hip is None else ()
    return TorchBuild(
        cuda=torch.version.cuda, hip=torch.version.hip, arches=tuple(arches), gpu_here=gpu
    )
