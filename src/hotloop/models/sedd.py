"""A transformer that learns to denoise text: SEDD, score entropy discrete diffusion.

Dims: B batch, T positions, D width, C width of the condition, F frequencies, V vocabulary.
The network reads noised ids in both directions and returns the logarithm of the score ratios
s_y = p(text with y at this position) / p(text as it is) under the noise sigma. Blocks are GPT-2's
with rotary positions; sigma shifts and scales their norms and gates their branches.
Sources: Lou, Meng, Ermon 2023, arXiv:2310.16834; adaptive norms: Peebles, Xie 2022,
arXiv:2212.09748 (DiT, adaLN-Zero).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from hotloop.models.gpt import GptAttention, gpt_mlp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ScoreEntropy", "Sedd", "absorbing_entropy", "uniform_entropy"]

Transition = Literal["absorbing", "uniform"]

CONDITION = 128  # cond_dim of SEDD's configs/model/small.yaml, 2026-11
FREQUENCIES = 128  # half of DiT's frequency_embedding_size
# The sinusoids get 100 log(sigma): SEDD's 1e-4 to 20 is then as wide as DiT's 1,000 time steps.
LOG_SCALE, LONGEST_PERIOD = 100.0, 10_000.0


class NoiseLevel(nn.Module):
    """sigma [B] -> the condition [B, C]: sinusoids of its logarithm, then two linear layers."""

    frequencies_F: Tensor

    def __init__(self) -> None:
        super().__init__()
        frequencies_F = LONGEST_PERIOD ** (-torch.arange(FREQUENCIES) / FREQUENCIES)
        self.register_buffer("frequencies_F", frequencies_F, persistent=False)
        self.mlp = nn.Sequential(
            nn.Linear(2 * FREQUENCIES, CONDITION), nn.SiLU(), nn.Linear(CONDITION, CONDITION)
        )

    def forward(self, sigma_B: Tensor) -> Tensor:
        """[B] -> [B, C]."""
        angles_BF = LOG_SCALE * sigma_B.log()[:, None] * self.frequencies_F
        waves = torch.cat((angles_BF.cos(), angles_BF.sin()), dim=-1)
        return functional.silu(self.mlp(waves))


class SeddBlock(nn.Module):
    """x + gate * attention(norm(x)), then x + gate * mlp(norm(x)), modulated by the condition."""

    def __init__(self, width: int, heads: int, context: int, *, bias: bool, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(CONDITION, 6 * width)
        self.attention = GptAttention(
            width, heads, context, bias=bias, dropout=dropout, causal=False
        )
        self.mlp = gpt_mlp(width, bias=bias, dropout=dropout)

    def forward(self, x_BTD: Tensor, condition_BC: Tensor) -> Tensor:
        """[B, T, D], [B, C] -> [B, T, D]."""
        set_B1D: Tensor = self.modulation(condition_BC)[:, None]
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = set_B1D.chunk(6, dim=-1)
        y_BTD = self.attention(self.norm(x_BTD) * (1 + scale) + shift)
        x_BTD = x_BTD + gate * y_BTD
        y_BTD = self.mlp(self.norm(x_BTD) * (1 + scale_mlp) + shift_mlp)
        return x_BTD + gate_mlp * y_BTD  # type: ignore[no-any-return]


class Sedd(nn.Module):
    """Noised ids [B, T] and their sigma [B] -> log score ratios [B, T, V], in float32.

    With absorbing transitions id V is the mask, and only the ratios at masks have a meaning; with
    uniform ones the ratio of the current id is 1. Before training every ratio is that of a text
    whose characters are all equally likely. Raises ConfigError as `Gpt` does.
    """

    def __init__(
        self,
        *,
        transition: Transition,
        vocabulary: int,
        layers: int,
        heads: int,
        width: int,
        context: int,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.transition, self.vocabulary, self.context = transition, vocabulary, context
        self.embed = nn.Embedding(vocabulary + (transition == "absorbing"), width)
        self.dropout = nn.Dropout(dropout)
        self.noise_level = NoiseLevel()
        self.blocks = nn.ModuleList(
            SeddBlock(width, heads, context, bias=bias, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(CONDITION, 2 * width)
        self.head = nn.Linear(width, vocabulary, bias=bias)
        self._initialise()

    def _initialise(self) -> None:
        """Xavier as in DiT; gates, shifts, scales and the head start at 0 (adaLN-Zero).

        Narrow models need it: with GPT-2's 0.02 the bound after 600 steps was 2.62, not 2.51 nats
        (2 x 128, batch 16 x 64, Tiny Shakespeare, one seed each; AMD EPYC, 1 thread).
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2 or "modulation" in name or name.startswith("head"):
                nn.init.zeros_(parameter)
            elif name == "embed.weight":
                nn.init.normal_(parameter, std=0.02)
            else:
                nn.init.xavier_uniform_(parameter)

    def forward(self, ids_BT: Tensor, sigma_B: Tensor) -> Tensor:
        """[B, T], [B] -> [B, T, V]; T is at most the context."""
        condition_BC = self.noise_level(sigma_B)
        x_BTD = self.dropout(self.embed(ids_BT))
        for block in self.blocks:
            x_BTD = block(x_BTD, condition_BC)
        shift, scale = self.modulation(condition_BC)[:, None].chunk(2, dim=-1)
        logits_BTV: Tensor = self.head(self.norm(x_BTD) * (1 + scale) + shift).float()
        if self.transition == "uniform":
            return logits_BTV.scatter(-1, ids_BT[..., None], 0.0)
        # exp(logit) / V is the probability of y under the mask (SEDD's scale_by_sigma).
        return logits_BTV - math.log(self.vocabulary) - sigma_B[:, None, None].expm1().log()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreEntropy:
    """The denoising score entropy of a batch, whose mean is an upper bound of -log p(text).

    The bound is an integral over sigma, of which each sample is one point. `ends` is the part of
    the bound outside the noise range of the batches, nats per character.
    """

    transition: Transition
    ends: float

    def __call__(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return nats per character of `targets` [B, T] noised to `inputs` by `sigma` [B].

        `weight` [B] is d sigma over the share of samples that are drawn there.
        """
        noised_BT, sigma_B = tensors["inputs"], tensors["sigma"]
        entropy = absorbing_entropy if self.transition == "absorbing" else uniform_entropy
        entropy_BT = entropy(model(noised_BT, sigma_B), noised_BT, tensors["targets"], sigma_B)
        return (tensors["weight"] * entropy_BT.mean(1)).mean() + self.ends


def absorbing_entropy(
    log_s_BTV: Tensor, noised_BT: Tensor, clean_BT: Tensor, sigma_B: Tensor
) -> Tensor:
    """Return the score entropy per unit of sigma [B, T]: 0 except at masks, where y may be any id.

    Under a mask the true ratio of the clean character is 1 / (exp(sigma) - 1), of any other 0.
    """
    log_r_B1 = -sigma_B.expm1().log()[:, None]
    masked_BT = noised_BT == log_s_BTV.shape[-1]
    # The ratios elsewhere are not trained: one that overflows must not become 0 * inf.
    log_s_BTV = torch.where(masked_BT[..., None], log_s_BTV, 0.0)
    log_s_BT = log_s_BTV.gather(-1, clean_BT[..., None]).squeeze(-1)
    others_BT = log_s_BTV.exp().sum(-1) - log_s_BT.exp()
    return masked_BT * (others_BT + _entropy(log_s_BT, log_r_B1))


def uniform_entropy(
    log_s_BTV: Tensor, noised_BT: Tensor, clean_BT: Tensor, sigma_B: Tensor
) -> Tensor:
    """Return the score entropy per unit of sigma [B, T]: the mean over y (0 for the current id).

    True ratios compare exp(-sigma) [y is clean] + (1 - exp(-sigma)) / V with that of the current
    id.
    """
    V = log_s_BTV.shape[-1]
    stays_B11 = (V / sigma_B.expm1()).log1p()[:, None, None]  # log p(clean) / p(any other)
    clean_BTV = functional.one_hot(clean_BT, V)
    here_BT1 = (noised_BT == clean_BT)[..., None]
    log_r_BTV = stays_B11 * (clean_BTV - 1 * here_BT1)
    return _entropy(log_s_BTV, log_r_BTV).mean(-1)


def _entropy(log_s: Tensor, log_r: Tensor) -> Tensor:
    """Return s - r log s + r (log r - 1) >= 0, written so that nothing cancels near s = r."""
    d = log_s - log_r
    return log_r.exp() * (d.expm1() - d)
