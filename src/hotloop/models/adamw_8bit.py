"""AdamW whose moving averages take 8 bits each, on the device or in host memory; it never waits.

Dims: N numbers of a parameter or of a piece of it, B blocks of 256 of them.
A parameter is updated in pieces, each in float32: averages are decoded, moved and encoded again
(`moments_8bit`), and a weight in bfloat16 is rounded stochastically. In host memory the averages
come and go while other pieces are updated. Chance comes from a generator of its own, seeded by the
step, so that a resumed run and other ranks draw the same. Parameters that are small or no multiple
of a block keep averages in float32, in torch's fused kernel.
Sources: Loshchilov and Hutter 2019, arXiv:1711.05101; Dettmers et al. 2021, arXiv:2110.02861;
stochastic rounding of weights: Zamirai et al. 2020, arXiv:2010.06192.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor

from hotloop.core.errors import CheckpointError
from hotloop.machine.host_memory import HostArena
from hotloop.machine.round_trip import RoundTrip
from hotloop.models.moments_8bit import (
    BLOCK,
    decoded,
    decoded_squares,
    encoded,
    encoded_squares,
    in_bfloat16,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["AdamW8bit", "is_coded", "state_bytes", "tried", "update_piece"]

_LEAST: Final = 1 << 16  # numbers of a parameter below which its averages stay in float32
_PIECE: Final = 1 << 22  # numbers that are updated at once: 16 MiB in float32
# Entries of a parameter's state besides "step".
_PLAIN = ("exp_avg", "exp_avg_sq")  # in float32, of the parameter's shape
_CODES = ("average", "square")  # int8 [N] and uint8 [N]; with "scales", float32 [2, B]
_DRAWN = "drawn"  # the steps that have drawn chance
_LOW, _HIGH = 16, 15  # bits of one draw, that of a weight in bfloat16 and the others


def is_coded(parameter: Tensor) -> bool:
    """Whether the averages of a parameter are kept in 8 bits."""
    count = parameter.numel()
    return count >= _LEAST and count % BLOCK == 0 and parameter.is_contiguous()


def state_bytes(parameter: Tensor, *, on_host: bool) -> int:
    """Return the bytes of a parameter's state on the device, without what one piece takes."""
    count = parameter.numel()
    if not is_coded(parameter):
        return 8 * count
    return 8 * count // BLOCK + (0 if on_host else 2 * count)


def update_piece(
    weight_N: Tensor,
    grad_N: Tensor,
    average_N: Tensor,
    square_N: Tensor,
    average_scale_B: Tensor,
    square_scale_B: Tensor,
    drawn_N: Tensor,
    numbers: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Update a piece of a weight and its coded averages in place.

    `drawn_N` is int32, uniform below 2^31. `numbers` are scalars on the device: learning rate,
    factor of the weight decay, the two bias corrections, the divisor of gradients, and whether
    nothing may change (above 0).
    """
    rate, decay, first, second, divide, skip = numbers
    low_BN = (drawn_N & ((1 << _LOW) - 1)).view(-1, BLOCK)
    high_BN = (drawn_N >> _LOW).view(-1, BLOCK)
    of_average_BN = drawn_N.view(-1, BLOCK).float() / (1 << _LOW + _HIGH)
    of_square_BN = (low_BN * (1 << _HIGH) + high_BN).float() / (1 << _LOW + _HIGH)
    grad_BN = grad_N.view(-1, BLOCK).float() / divide
    average_BN = decoded(average_N.view(-1, BLOCK), average_scale_B[:, None])
    square_BN = decoded_squares(square_N.view(-1, BLOCK), square_scale_B[:, None])
    average_BN = torch.lerp(grad_BN, average_BN, betas[0])
    square_BN = torch.lerp(grad_BN.square(), square_BN, betas[1])
    new_BN = weight_N.view(-1, BLOCK).float() * decay
    new_BN = new_BN - rate * (average_BN / first) / ((square_BN / second).sqrt() + eps)
    if weight_N.dtype == torch.bfloat16:
        new_BN = in_bfloat16(new_BN, low_BN)
    average, average_scale_B1 = encoded(average_BN, of_average_BN)
    square, square_scale_B1 = encoded_squares(square_BN, of_square_BN)
    stays = skip > 0
    for old, new in (
        (weight_N, new_BN.view(-1)),
        (average_N, average.view(-1)),
        (square_N, square.view(-1)),
        (average_scale_B, average_scale_B1.view(-1)),
        (square_scale_B, square_scale_B1.view(-1)),
    ):
        old.copy_(torch.where(stays, old, new))


@torch.no_grad()
def tried(
    update: Callable[..., None],
    parameter: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Call an update on pieces of two sizes, of a parameter's dtype, which compiles it.

    The second one is as large as any piece of the parameter, so that its memory is there.
    """
    dtype, device = parameter.dtype, parameter.device
    for count in (_LEAST, min(_PIECE, parameter.numel())):
        blocks = count // BLOCK
        weight, grad = (torch.zeros(count, dtype=dtype, device=device) for _ in range(2))
        average = torch.zeros(count, dtype=torch.int8, device=device)
        square = torch.zeros(count, dtype=torch.uint8, device=device)
        scales = torch.zeros(2, blocks, device=device)
        drawn = torch.zeros(count, dtype=torch.int32, device=device)
        numbers = tuple(torch.ones((), device=device) for _ in range(6))
        update(weight, grad, average, square, *scales, drawn, numbers, betas, eps)


class AdamW8bit(torch.optim.Optimizer):
    """AdamW with coded averages.

    It reads the attributes `grad_scale` (a divisor of the gradients) and `found_inf` (above 0:
    nothing changes), scalars on the device, as torch's fused optimizers do.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        on_host: bool = False,
        update: Callable[..., None] = update_piece,
    ) -> None:
        """Take parameters or groups. With `on_host`, codes lie in pinned host memory.

        `update` is `update_piece`, or the same compiled.
        """
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "fused": True})  # type: ignore[no-untyped-call, unused-ignore]
        self._step_supports_amp_scaling = True
        self.on_host, self._update = on_host, update
        self.has_updated = False  # whether a weight may have changed
        self._arena: HostArena | None = None
        self._trip: RoundTrip | None = None
        self._generator: torch.Generator | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient. `closure` is not supported."""
        if closure is not None:
            raise TypeError("AdamW8bit takes no closure")
        self._reserve()
        self.has_updated = True
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            generator = self._seeded(params[0].device, self.state[params[0]][_DRAWN])
            self._step_small([p for p in params if not is_coded(p)], group, generator)
            self._step_coded([p for p in params if is_coded(p)], group, generator)
            for parameter in params:
                self.state[parameter][_DRAWN] += 1

    def _reserve(self) -> None:
        """Make the state of what has a gradient, and try its memory, before a weight changes."""
        new = [
            (p, group)
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None and not self.state[p]
        ]
        try:
            for parameter, _ in new:
                self.state[parameter] = self._new(parameter)
            coded = [(p, group) for p, group in new if is_coded(p)]
            if coded:
                largest, group = max(coded, key=lambda pair: pair[0].numel())
                tried(self._update, largest, group["betas"], group["eps"])
        except RuntimeError:  # out of memory: another try begins anew
            for parameter, _ in new:
                self.state.pop(parameter, None)
            self._arena = None
            raise

    def state_dict(self) -> dict[str, Any]:
        """Return torch's own, after waiting for what is on its way to host memory."""
        if self._trip is not None:
            self._trip.wait()
        return super().state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state; torch's own would turn codes into the dtype of their parameters.

        Raises CheckpointError for the state of another class of this name.
        """
        if any(_DRAWN not in values for values in state_dict["state"].values()):
            raise CheckpointError(
                "the optimizer's state is that of another AdamW8bit, as bitsandbytes has it: begin "
                "a new run with init_from"
            )
        super().load_state_dict({**state_dict, "state": {}})
        params = [p for group in self.param_groups for p in group["params"]]
        for index, values in state_dict["state"].items():
            parameter = params[index]
            self.state[parameter] = {
                key: self._placed(key, value, parameter) if torch.is_tensor(value) else value
                for key, value in values.items()
            }

    def _placed(self, key: str, value: Tensor, parameter: Tensor) -> Tensor:
        if key in _CODES:
            return self._codes(parameter, value.dtype).copy_(value)
        return value.to(parameter.device)

    def _codes(self, parameter: Tensor, dtype: torch.dtype) -> Tensor:
        """Return memory for the codes of a parameter, [N], where they are kept."""
        count = parameter.numel()
        if not (self.on_host and parameter.is_cuda):
            return torch.empty(count, dtype=dtype, device=parameter.device)
        if self._arena is None:
            params = (p for group in self.param_groups for p in group["params"] if is_coded(p))
            self._arena = HostArena(p.numel() for p in params for _ in _CODES)
        return self._arena.take(count).view(dtype)

    def _new(self, parameter: Tensor) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        device, count = parameter.device, parameter.numel()
        step = torch.zeros((), device=device)
        if not is_coded(parameter):
            averages = (torch.zeros_like(parameter, dtype=torch.float32) for _ in range(2))
            return {"step": step, **dict(zip(_PLAIN, averages, strict=True)), _DRAWN: 0}
        codes = (self._codes(parameter, dtype).zero_() for dtype in (torch.int8, torch.uint8))
        scales = torch.zeros(2, count // BLOCK, device=device)
        return {"step": step, "scales": scales, **dict(zip(_CODES, codes, strict=True)), _DRAWN: 0}

    def _step_small(
        self, params: list[Tensor], group: Mapping[str, Any], generator: torch.Generator
    ) -> None:
        """Update parameters with averages in float32."""
        if not params:
            return
        states = [self.state[p] for p in params]
        steps = [state["step"] for state in states]
        found, divide = self._outside()
        torch._foreach_add_(steps, 1)
        wide = [p if p.dtype == torch.float32 else p.float() for p in params]
        averages, squares = ([state[key] for state in states] for key in _PLAIN)
        torch._fused_adamw_(
            wide,
            [cast("Tensor", p.grad).float() for p in params],
            averages,
            squares,
            [],
            steps,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=divide,
            found_inf=found,
        )
        for parameter, new in zip(params, wide, strict=True):
            if parameter.dtype == torch.bfloat16:
                chance = torch.empty_like(new, dtype=torch.int32)
                chance.random_(1 << _LOW, generator=generator)
                parameter.copy_(in_bfloat16(new, chance))
            elif new is not parameter:
                parameter.copy_(new)
        if found is not None:  # a step that was skipped does not count
            torch._foreach_sub_(steps, [found] * len(steps))

    def _step_coded(
        self, params: list[Tensor], group: Mapping[str, Any], generator: torch.Generator
    ) -> None:
        """Update parameters with coded averages, piece by piece."""
        if not params:
            return
        states, device = [self.state[p] for p in params], params[0].device
        found, divide = self._outside()
        none, one = torch.zeros((), device=device), torch.ones((), device=device)
        found, divide = none if found is None else found, one if divide is None else divide
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, [1 - found] * len(steps))
        first_P, second_P = (1 - beta ** torch.stack(steps) for beta in group["betas"])
        rate = torch.full((), group["lr"], device=device)
        decay = 1 - rate * group["weight_decay"]
        pieces = [(n, at) for n, p in enumerate(params) for at in range(0, p.numel(), _PIECE)]
        codes = [[states[n][key][at : at + _PIECE] for key in _CODES] for n, at in pieces]
        through = self._through(codes, device)
        for (n, at), (average_N, square_N) in zip(pieces, through, strict=True):
            weight, count = params[n], len(average_N)
            scales = states[n]["scales"][:, at // BLOCK : (at + count) // BLOCK]
            drawn_N = torch.empty(count, dtype=torch.int32, device=device)
            self._update(
                weight.view(-1)[at : at + count],
                cast("Tensor", weight.grad).reshape(-1)[at : at + count],
                average_N,
                square_N,
                *scales,
                drawn_N.random_(generator=generator),
                (rate, decay, first_P[n].clone(), second_P[n].clone(), divide, found),
                group["betas"],
                group["eps"],
            )

    def _outside(self) -> tuple[Tensor | None, Tensor | None]:
        """Return found_inf and grad_scale, as a loss scaler or the loop sets them."""
        return getattr(self, "found_inf", None), getattr(self, "grad_scale", None)

    def _seeded(self, device: torch.device, drawn: int) -> torch.Generator:
        if self._generator is None or self._generator.device != device:
            self._generator = torch.Generator(device)
        return self._generator.manual_seed(drawn)

    def _through(self, codes: list[list[Tensor]], device: torch.device) -> Iterator[list[Tensor]]:
        """Yield the codes of each piece on the device."""
        if codes[0][0].device == device:
            return iter(codes)
        if self._trip is None:
            self._trip = RoundTrip(device)
        return self._trip.through(codes)
