"""cuDNN benchmark: convolutions run the algorithm that was fastest for their shape.

What: sets torch.backends.cudnn.benchmark: at the first call of each shape cuDNN times its
    algorithms and keeps the fastest. It concerns convolutions only: a transformer has none.
Helps when: a model of convolutions sees few input shapes, many times each.
Does not help when: shapes change all the time, for each new one is timed; or on a CPU.
Numbers: rounding; another algorithm sums in another order. Timing may choose another one in the
    next process, so a resumed run is not bit for bit the run that was never stopped.
Measured: not measured here: needs a CUDA GPU.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html (2026-11)
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique, only_on

if TYPE_CHECKING:
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "cudnn-benchmark"


def _convolutions(session: TechniqueTarget) -> int:
    from torch.nn.modules.conv import _ConvNd  # the base of all six, which has no public name

    return sum(isinstance(module, _ConvNd) for module in session.model.modules())


def apply(session: TechniqueTarget) -> int:
    """Set the process's switch; return the number of convolutions that it affects."""
    from torch.backends import cudnn

    if cudnn.benchmark or not (convolutions := _convolutions(session)):
        return 0

    cudnn.benchmark = True
    session.undo[ID] = functools.partial(setattr, cudnn, "benchmark", False)
    return convolutions


def read_back(session: TechniqueTarget) -> str | None:
    """Read torch's switch, and count the convolutions."""
    from torch.backends import cudnn

    if not cudnn.benchmark or ID not in session.undo:
        return None
    convolutions = _convolutions(session)  # none is left when a script is over
    return "cudnn.benchmark is on" + (f" for {convolutions} convolutions" if convolutions else "")


TECHNIQUE = Technique(
    id=ID,
    title="cuDNN benchmark",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=3e-4,  # not measured: tf32's, to which cuDNN's float32 convolutions round by default
    cosine=1 - 3e-6,
    blocked=only_on("cuda", "cuDNN is for CUDA GPUs"),
    apply=apply,
    read_back=read_back,
    nothing="the model has no convolution (a transformer has none), or the switch is on already",
)
