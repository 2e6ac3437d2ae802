"""A decoder-only transformer for short vocabularies: GPT-2's blocks, rotary positions, tied head.

Dims: B batch, T positions, D width, H heads, K head width, V vocabulary.
Dropout is applied to embeddings and residual branches, not to attention weights, so that every
attention back end computes the same function.
Positions are rotary: on Tiny Shakespeare (4 x 128, context 64, 2,000 steps) their final validation
loss was 0.1 nats per character below that of learned ones (docs/log.md, 2026-11-20).
Sources: Radford et al. 2019 (GPT-2); Su et al. 2021, arXiv:2104.09864 (rotary positions);
initialisation as in github.com/karpathy/nanoGPT.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from hotloop.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Gpt", "GptAttention", "gpt_mlp", "next_token_loss"]

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


ROTARY_BASE = 10_000.0  # Su et al. 2021, section 3.2.2


def _rotate(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    """Rotate each pair (x_i, x_{i + K/2}) by its position's angle."""
    first, second = x_BHTK.chunk(2, dim=-1)
    return x_BHTK * cos_TK + torch.cat((-second, first), dim=-1) * sin_TK


class GptAttention(nn.Module):
    """Self-attention, causal or bidirectional; `attention` names the way of computing it."""

    causal_TT: Tensor
    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(
        self,
        width: int,
        heads: int,
        context: int,
        *,
        bias: bool,
        dropout: float,
        causal: bool = True,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"width {width} is not divisible by {heads} heads")
        if width // heads % 2:
            raise ConfigError(
                f"{heads} heads of {width // heads} channels in a width of {width}: rotary "
                "positions turn pairs of channels, so a head needs an even number of them"
            )
        self.heads, self.head_width, self.context = heads, width // heads, context
        self.attention, self.causal = "auto", causal
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)
        if causal:
            causal_TT = torch.ones(context, context, dtype=torch.bool).tril()
            self.register_buffer("causal_TT", causal_TT, persistent=False)
        steps = torch.arange(0, self.head_width, 2) / self.head_width
        angles = torch.outer(torch.arange(context), ROTARY_BASE**-steps).repeat(1, 2)
        self.register_buffer("cos_TK", angles.cos(), persistent=False)
        self.register_buffer("sin_TK", angles.sin(), persistent=False)

    def attend(self, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
        """Return softmax(QK^T / sqrt(K)) V, under the causal mask if causal, [B, H, T, K]."""
        if self.attention == "naive":
            return self._naive(q_BHTK, k_BHTK, v_BHTK)
        fused = functional.scaled_dot_product_attention
        if self.attention == "auto":
            return fused(q_BHTK, k_BHTK, v_BHTK, is_causal=self.causal)
        with sdpa_kernel(_KERNELS[self.attention]):
            return fused(q_BHTK, k_BHTK, v_BHTK, is_causal=self.causal)

    def _naive(self, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
        T = q_BHTK.shape[2]
        scores_BHTT = (q_BHTK @ k_BHTK.mT) * (1 / math.sqrt(self.head_width))
        if self.causal:
            scores_BHTT = scores_BHTT.masked_fill(~self.causal_TT[:T, :T], -torch.inf)
        return scores_BHTT.softmax(-1) @ v_BHTK

    def forward(self, x_BTD: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        B, T, D = x_BTD.shape
        q_BHTK, k_BHTK, v_BHTK = (
            part.view(B, T, self.heads, self.head_width).transpose(1, 2)
            for part in self.qkv(x_BTD).split(D, dim=-1)
        )
        cos_TK, sin_TK = self.cos_TK[:T].to(q_BHTK.dtype), self.sin_TK[:T].to(q_BHTK.dtype)
        q_BHTK, k_BHTK = _rotate(q_BHTK, cos_TK, sin_TK), _rotate(k_BHTK, cos_TK, sin_TK)
        y_BTD = self.attend(q_BHTK, k_BHTK, v_BHTK).transpose(1, 2).reshape(B, T, D)
        return self.dropout(self.out(y_BTD))  # type: ignore[no-any-return]


def gpt_mlp(width: int, *, bias: bool, dropout: float) -> nn.Sequential:
    """Return the two layers of a block, 4 times as wide between them."""
    return nn.Sequential(
        nn.Linear(width, 4 * width, bias=bias),
        nn.GELU(),
        nn.Linear(4 * width, width, bias=bias),
        nn.Dropout(dropout),
    )


class GptBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int, context: int, *, bias: bool, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width, bias=bias)
        self.attention = GptAttention(width, heads, context, bias=bias, dropout=dropout)
        self.norm_mlp = nn.LayerNorm(width, bias=bias)
        self.mlp = gpt_mlp(width, bias=bias, dropout=dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        x_BTD = x_BTD + self.attention(self.norm_attention(x_BTD))
        return x_BTD + self.mlp(self.norm_mlp(x_BTD))  # type: ignore[no-any-return]


class Gpt(nn.Module):
    """Token ids [B, T] -> logits [B, T, V]; the head shares the embedding's weight.

    Raises ConfigError for a width that does not make heads of an even number of channels.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        layers: int,
        heads: int,
        width: int,
        context: int,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.context = context
        self.embed = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            GptBlock(width, heads, context, bias=bias, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, bias=bias)
        self._initialise(layers)

    def _initialise(self, layers: int) -> None:
        """Draw from normal(0, 0.02), and residual branches from less, by depth (GPT-2)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                branch = name.endswith(("attention.out.weight", "mlp.2.weight"))
                std = 0.02 / math.sqrt(2 * layers) if branch else 0.02
                nn.init.normal_(parameter, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """[B, T] -> [B, T, V]; T is at most the context."""
        x_BTD = self.dropout(self.embed(ids_BT))
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return functional.linear(self.norm(x_BTD), self.embed.weight)


def next_token_loss(model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the mean cross entropy in nats of `targets` [B, T] given `inputs` [B, T]."""
    logits_BTV = model(tensors["inputs"])
    return functional.cross_entropy(logits_BTV.flatten(0, 1), tensors["targets"].flatten())
