"""Techniques that promise more than they keep, and a right one; `main` is a trial with them."""

import gc
from dataclasses import replace
from functools import partial

from hotloop.techniques.autocast_bf16 import TECHNIQUE as BF16
from hotloop.techniques.base import Numerics, Stage, Technique, anywhere
from hotloop.tuning import script_trial

__all__ = ["KNOWN", "main"]

ACCUMULATION = 4


class Scaled:
    """Divides each loss once more; a session's `scale`."""

    def __call__(self, run, loss):
        one = loss[0] if isinstance(loss, list | tuple) else loss
        run(one / ACCUMULATION)

    def before(self, *_):
        """Nothing: it is right to no gradient."""

    after = before


def divide(session) -> int:
    session.scale = Scaled()
    return 1


def turn(session) -> int:
    """Let gradients flow back with the other sign; what is computed forward stays."""
    import torch

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    inner = session.forward
    session.forward = lambda *args, **kwargs: Turned.apply(inner(*args, **kwargs))
    return 1


def hurry(session) -> int:
    """Take away what the script waits for; nothing that is computed changes."""
    session.model.pause = 0.0
    return 1


def idle(session) -> int:
    """Do nothing to the script: it cannot be faster."""
    gc.collect()
    return 1


def technique(id: str, apply, **more) -> Technique:
    return Technique(
        id=id,
        title=id,
        stage=Stage.MODEL,
        numerics=more.pop("numerics", Numerics.BITWISE),
        apply=apply,
        read_back=lambda session: "it was applied",
        nothing="nothing",
        **more,
    )


ROUNDING = {"numerics": Numerics.ROUNDING, "tolerance": 1e-5, "cosine": 1 - 1e-9}
KNOWN = (
    technique("loss-divided", divide, **ROUNDING),
    technique("gradients-turned", turn, **ROUNDING),
    replace(BF16, numerics=Numerics.BITWISE, tolerance=0.0, cosine=1.0, blocked=anywhere),
    technique("no-pause", hurry),
)
main = partial(script_trial.main, known=KNOWN)
