"""Draw text from a diffusion model, which turns noise into text in a number of denoising steps.

Dims: B batch, T positions, V vocabulary.
Each step draws every position from its exact reverse probabilities given the scores at the step's
start, all positions independently: Tweedie tau-leaping. Given positions stay as they are at every
step. Under absorbing noise that is exact, because a clean character is one that the noise has
spared. Under uniform noise the model treats a given character as one that may be noise, so the
lower the noise is, the more it follows the given text.
Source: Lou, Meng, Ermon 2023, arXiv:2310.16834.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hotloop.models.sedd import Sedd

__all__ = ["FREE", "denoise", "from_mask", "from_uniform"]

FREE = -1  # in place of an id: this position is to be drawn
UNKNOWN = 0  # the id of <unk>; it is never drawn
TINY = torch.finfo(torch.float64).tiny


@torch.no_grad()
def denoise(
    model: Sedd,
    given_T: Tensor,
    *,
    levels: Sequence[float],
    samples: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Return ids [samples, T]; those of `given_T` are kept where they are not FREE.

    `levels` is the noise before each step and after the last one, which must be 0. `progress` is
    called with (steps done, all steps). Equal seeds give equal ids on one machine.
    """
    generator = torch.Generator().manual_seed(seed)
    absorbing, steps = model.transition == "absorbing", len(levels) - 1
    reverse = from_mask if absorbing else from_uniform
    free_T, shape = given_T == FREE, (samples, len(given_T))
    ids_BT = torch.full(shape, model.vocabulary)
    if not absorbing:
        ids_BT = torch.randint(model.vocabulary, shape, generator=generator)
    ids_BT = torch.where(free_T, ids_BT, given_T)
    for done, (sigma, lower) in enumerate(pairwise(levels), 1):
        log_s_BTV = model(ids_BT, torch.full((samples,), sigma)).double()
        p_BTV = reverse(log_s_BTV, ids_BT, sigma, lower)
        drawn_BT = torch.multinomial(p_BTV.flatten(0, 1), 1, generator=generator).view(shape)
        ids_BT = torch.where(free_T, drawn_BT, given_T)
        if progress:
            progress(done, steps)
    return ids_BT


def from_mask(log_s_BTV: Tensor, ids_BT: Tensor, sigma: float, lower: float) -> Tensor:
    """Return the probability of each id at noise `lower`, the mask last, [B, T, V+1].

    A mask becomes y with probability (exp(sigma - lower) - 1) s_y, never <unk>. Otherwise it stays
    masked, except at noise 0. All other ids stay as they are.
    """
    V = log_s_BTV.shape[-1]
    log_p_BTV = log_s_BTV + math.log(math.expm1(sigma - lower))
    log_p_BTV[..., UNKNOWN] = -torch.inf
    total_BT1 = log_p_BTV.logsumexp(-1, keepdim=True)
    too_much = total_BT1 if lower == 0 else total_BT1.clamp(min=0)  # scores are not exact
    stays_BT1 = -(total_BT1 - too_much).expm1()
    p_BTV = torch.cat(((log_p_BTV - too_much).exp(), stays_BT1), dim=-1)
    same_BTV = torch.nn.functional.one_hot(ids_BT, V + 1).double()
    return torch.where((ids_BT == V)[..., None], p_BTV, same_BTV)


def from_uniform(log_s_BTV: Tensor, ids_BT: Tensor, sigma: float, lower: float) -> Tensor:
    """Return the probability of each id at noise `lower`, up to a factor, [B, T, V].

    (exp(-dQ) s)_y exp(dQ)_xy, where d = sigma - lower, x is the current id and s_x is 1. At noise 0
    the result is never <unk>.
    """
    V, step = log_s_BTV.shape[-1], sigma - lower
    s_BTV = (log_s_BTV - log_s_BTV.amax(-1, keepdim=True)).exp()  # the factor prevents overflow
    mean_BT1 = s_BTV.mean(-1, keepdim=True)
    before_BTV = mean_BT1 + math.exp(step) * (s_BTV - mean_BT1)
    stays_BTV = torch.nn.functional.one_hot(ids_BT, V)
    moves_BTV = math.exp(-step) * stays_BTV - math.expm1(-step) / V
    p_BTV = (before_BTV * moves_BTV).clamp(min=TINY)  # scores are not exact: some fall below 0
    if lower == 0:
        p_BTV[..., UNKNOWN] = 0
    return p_BTV
