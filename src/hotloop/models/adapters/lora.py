"""Linear layers with an adapter: a frozen weight, and few trained parameters beside it.

Dims: N positions, I inputs, O outputs, R rank.
A layer becomes one of these in place, by a change of its class (as in torch's fully_shard):
references, hooks and the names of its frozen parameters stay. A, B and other trained parameters are
fp32; `adapters.product` multiplies with them in the dtype of the computation.
Sources: Hu et al. 2021, arXiv:2106.09685; Liu et al. 2022, arXiv:2205.05638 ((IA)^3); parameters,
initialisation and scaling as in PEFT 0.21 (peft/tuners/lora/layer.py, ia3/layer.py).
"""

from __future__ import annotations

import hashlib
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from hotloop.models.adapters.nf4_linear import frozen_product, is_quantised, rows
from hotloop.models.adapters.product import AdapterProduct, Prepared, low_copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from hotloop.models.adapters.config import AdapterConfig

__all__ = ["Adapted", "Ia3Linear", "LoraLinear", "drawn", "products", "together"]


class Holder(Protocol):
    """What keeps prepared adapters."""

    stays: bool  # whether a recorded graph finds them in the same memory

    def ready(self, layer: LoraLinear, dtype: torch.dtype) -> Prepared:
        """Return a layer's adapter for products in a dtype."""
        ...

    def forget(self) -> None:
        """Prepare again when it is next used."""
        ...


class Beside(Protocol):
    """Layers that read the same input, whose outputs are computed together."""

    def output(self, layer: LoraLinear, x: Tensor) -> Tensor:
        """Return the output of one of them as [N, O], in the dtype of the products."""
        ...

    def forget(self) -> None:
        """Let go of outputs that were not taken, and of their graph."""
        ...


def drawn(config: AdapterConfig, name: str, inputs: int) -> Tensor:
    """Return the initial A [R, I] in fp32, drawn from a generator seeded by the layer's name."""
    digest = hashlib.blake2b(f"{config.seed}/{name}".encode(), digest_size=7).digest()
    stream = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    a_RI = torch.empty(config.rank, inputs)
    return nn.init.kaiming_uniform_(a_RI, a=math.sqrt(5), generator=stream)


class Adapted(nn.Linear):
    """A linear layer with an adapter."""

    adapter: AdapterConfig
    compute: torch.dtype | None  # of the product with a packed weight

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Freeze the existing parameters and add the trained ones; `name` is the full name."""
        self.requires_grad_(False)
        self.adapter = config
        packed = is_quantised(self.weight)
        compute = getattr(self, "compute_dtype", None) or torch.bfloat16
        self.compute = compute if packed else None

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the parameters of the adapter by their names in PEFT's files."""
        raise NotImplementedError

    def merged(self) -> tuple[Tensor, Tensor | None]:
        """Return the weight [O, I] and bias of an equivalent plain layer, in fp32."""
        raise NotImplementedError

    def plain(self) -> Tensor:
        """Return a copy of the frozen weight, [O, I] in fp32."""
        return torch.cat([block.detach() for block in rows(self.weight)])

    def placed(self, values: Tensor) -> nn.Parameter:
        """Return fp32 values as a parameter on the weight's device."""
        return nn.Parameter(values.to(self.weight.device, torch.float32))


class LoraLinear(Adapted):
    """x W^T + bias + s (dropout(x) A^T) B^T with A [R, I], B [O, R] and s = scaling."""

    lora_A: nn.Parameter
    lora_B: nn.Parameter
    scaling: float
    holder: Holder | None = None  # keeps what is prepared, in the context `adapters_held`
    beside: Beside | None = None  # this layer and others that read the same input

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Add A, drawn from a generator seeded by this name, and B, which is zero."""
        super().adopt(config, name)
        self.lora_A = self.placed(drawn(config, name, self.in_features))
        self.lora_B = self.placed(torch.zeros(self.out_features, config.rank))
        self.scaling = config.scaling

    def trained(self) -> dict[str, nn.Parameter]:
        """Return A and B."""
        return {"lora_A.weight": self.lora_A, "lora_B.weight": self.lora_B}

    def merged(self) -> tuple[Tensor, Tensor | None]:
        """Return W + s B A and the bias, in fp32."""
        a_RI, b_OR = self.lora_A.detach().float(), self.lora_B.detach().float()
        weight_OI = torch.addmm(self.plain(), b_OR, a_RI, alpha=self.scaling)
        return weight_OI, None if self.bias is None else self.bias.detach().float()

    @classmethod
    def prepare(cls, layers: Sequence[LoraLinear], dtype: torch.dtype) -> list[Prepared]:
        """Return the adapters of layers with A of one shape as products in a dtype take them."""
        prepared: dict[int, Prepared] = {}
        with torch.no_grad(), _without_autocast(layers[0]):
            a_GRI = together([layer.lora_A for layer in layers]).to(dtype)
            for width in dict.fromkeys(layer.out_features for layer in layers):
                at = [i for i, layer in enumerate(layers) if layer.out_features == width]
                some = cls._prepared([layers[i] for i in at], a_GRI, at)
                prepared.update(zip(at, some, strict=True))
        return [prepared[i] for i in range(len(layers))]

    @classmethod
    def _prepared(
        cls, layers: Sequence[LoraLinear], a_GRI: Tensor, at: Sequence[int]
    ) -> list[Prepared]:
        """Return the adapters of layers of one shape, whose A are at these places of a_GRI."""
        scaling = layers[0].scaling
        b_GOR = together([layer.lora_B for layer in layers])
        b_GOR = torch.mul(b_GOR, scaling, out=torch.empty_like(b_GOR, dtype=a_GRI.dtype))
        return [
            Prepared(a_GRI=a_GRI, at=i, b_OR=b_OR, bias_O=layer.bias_in(b_OR.dtype), of_b=scaling)
            for layer, i, b_OR in zip(layers, at, b_GOR, strict=True)
        ]

    def bias_in(self, dtype: torch.dtype) -> Tensor | None:
        """Return the frozen bias in a dtype, or None."""
        return None if self.bias is None else self.bias.detach().to(dtype)

    def computed_in(self, x: Tensor) -> torch.dtype:
        """Return the dtype in which products are computed."""
        if self.compute is not None:
            return self.compute
        kind = x.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype

    def lowered(self, x_NI: Tensor, others: Sequence[LoraLinear] = ()) -> Tensor:
        """Return dropout(x) A^T, [N, R], and that of other layers beside it."""
        if self.drops:
            x_NI = functional.dropout(x_NI, self.adapter.dropout, self.training)
        a_XI = torch.cat([each.lora_A for each in (self, *others)]) if others else self.lora_A
        return functional.linear(x_NI, a_XI.to(x_NI.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        if torch.compiler.is_compiling():  # the compiler fuses these passes
            return self.shaped(self.plainly(x.reshape(-1, self.in_features), self.bias), x)
        return self.shaped(self.product(x), x)

    def product(self, x: Tensor) -> Tensor:
        """Return the output as [N, O], in the dtype of the products."""
        if self.beside is None or self.drops:  # each layer draws what it drops
            return products([self], x)[0]
        return self.beside.output(self, x)

    @property
    def drops(self) -> bool:
        """Return whether a part of the adapter's input is dropped."""
        return self.adapter.dropout > 0 and self.training

    @property
    def magnitude(self) -> nn.Parameter | None:
        """Return DoRA's m [O]."""
        return None

    @property
    def lowers_apart(self) -> bool:
        """Return whether x A^T is no plain product."""
        return self.drops

    def plainly(self, x_NI: Tensor, bias: Tensor | None) -> Tensor:
        """Return x W^T + bias + s (dropout(x) A^T) B^T, [N, O], by torch's own operators."""
        x_NI = x_NI.to(self.computed_in(x_NI))
        h_NR = self.lowered(x_NI).mul_(self.scaling)
        b_OR = self.lora_B.to(h_NR.dtype)
        if self.compute is not None:
            return frozen_product(x_NI, self.weight, bias).addmm_(h_NR, b_OR.t())
        y_NO = functional.linear(h_NR, b_OR, None if bias is None else bias.to(h_NR.dtype))
        return y_NO.addmm_(x_NI, self.weight.to(x_NI.dtype).t())

    def shaped(self, y_NO: Tensor, x: Tensor) -> Tensor:
        """Return y with the leading dims of x, and in its dtype if the weight is packed."""
        if self.compute is not None:
            y_NO = y_NO.to(x.dtype)
        return y_NO.view(*x.shape[:-1], self.out_features)


def products(layers: Sequence[LoraLinear], x: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs [N, O] of layers that read x."""
    first, *others = layers
    if first.lowers_apart:
        x_NI = low_copy(x, first.computed_in(x), tracked=True).reshape(-1, first.in_features)
        return _product(layers, x_NI, x_NI.detach(), first.lowered(x_NI, others))
    low_NI = low_copy(x, first.computed_in(x)).reshape(-1, first.in_features)
    return _product(layers, x.reshape(low_NI.shape), low_NI, None)


def _product(
    layers: Sequence[LoraLinear], x_NI: Tensor, low_NI: Tensor, h_NX: Tensor | None
) -> tuple[Tensor, ...]:
    trained: list[Tensor | None] = []
    for layer in layers:
        trained += [layer.lora_A if h_NX is None else None, layer.lora_B, layer.magnitude]
    ready = _ready(layers, low_NI.dtype)
    outputs: tuple[Tensor, ...] = AdapterProduct.apply(  # type: ignore[no-untyped-call]
        x_NI, low_NI, h_NX, layers, ready, *trained
    )
    return outputs


def _ready(layers: Sequence[LoraLinear], dtype: torch.dtype) -> list[Prepared]:
    """Return adapters as products in a dtype take them, held or prepared now."""
    ready = []
    for layer in layers:
        if layer.holder is None or (_is_captured(layer.lora_A) and not layer.holder.stays):
            return type(layer).prepare(layers, dtype)
        ready.append(layer.holder.ready(layer, dtype))
    return ready


def together(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors of one shape as one in fp32, [G, ...]; a single one is not copied."""
    whole = tensors[0].detach()[None] if len(tensors) == 1 else torch.stack(list(tensors)).detach()
    return whole.float()


def _without_autocast(layer: LoraLinear) -> AbstractContextManager[object]:
    kind = layer.lora_A.device.type
    is_on = torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if is_on else nullcontext()


def _is_captured(tensor: Tensor) -> bool:
    """Return whether a CUDA graph is being recorded, whose inputs must be in it, or stay."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


class Ia3Linear(Adapted):
    """A learned factor for each output, or for each input if the layer is `feedforward`."""

    ia3_l: nn.Parameter
    is_feedforward: bool

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Add factors of 1: [1, I] at the inputs or [O, 1] at the outputs, as PEFT keeps them."""
        super().adopt(config, name)
        self.is_feedforward = config.is_feedforward(name)
        shape = (1, self.in_features) if self.is_feedforward else (self.out_features, 1)
        self.ia3_l = self.placed(torch.ones(shape))

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the factors."""
        return {"ia3_l": self.ia3_l}

    def merged(self) -> tuple[Tensor, Tensor | None]:
        """Return W and the bias times the factors, in fp32."""
        factors = self.ia3_l.detach().float()
        bias = None if self.bias is None else self.bias.detach().float()
        if bias is not None and not self.is_feedforward:
            bias = bias * factors[:, 0]
        return self.plain() * factors, bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        factors = self.ia3_l.flatten()
        scaled = (x * factors).to(x.dtype) if self.is_feedforward else x
        scaled = scaled if self.compute is None else scaled.to(self.compute)
        y = frozen_product(scaled, self.weight, self.bias)
        y = y if self.is_feedforward else (y * factors).to(y.dtype)
        return y if self.compute is None else y.to(x.dtype)
