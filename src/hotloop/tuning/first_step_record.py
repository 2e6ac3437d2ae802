"""Records the first steps of a trial: losses, gradient norms, samples of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor

__all__ = ["STEPS", "Witness"]

STEPS: Final = 8  # steps recorded; in later steps, rounding differences have grown too large
_ELEMENTS: Final = 256  # of each tensor's gradient, at places drawn once
_ALL: Final = 200_000  # elements of all tensors together
_LATE: Final = 20_000  # losses kept of a block after those


class Witness:
    """Receives losses, and gradients before they are used; does not synchronise with the GPU."""

    def __init__(self) -> None:
        self.steps = 0  # steps whose gradients were recorded
        self.draws = False  # whether a step drew random numbers
        self._losses: list[Any] = []
        self._late: list[Any] = []
        self._passes: list[int] = []  # how many of the losses each step has
        self._late_passes: list[int] = []
        self._of_step = 0  # losses recorded since the last step
        self._norms: list[Any] = []
        self._tensors: dict[str, Tensor] = {}
        self._samples: dict[str, Tensor] = {}
        self._seen: set[int] = set()  # optimizers
        self._reported = False

    @property
    def is_done(self) -> bool:
        """Whether all first steps were recorded."""
        return self.steps >= STEPS

    def loss(self, value: Any) -> None:
        """Record the loss of a backward pass, a tensor of one element; ignore other values."""
        import torch

        first = value[0] if isinstance(value, list | tuple) and value else value
        if not isinstance(first, torch.Tensor) or first.numel() != 1:
            return
        detached = first.detach()
        losses = self._late if self.is_done else self._losses
        if len(losses) < _LATE:
            self._of_step += 1
            losses.append(float(detached) if detached.device.type == "cpu" else detached.clone())

    def gradients(
        self, groups: Iterable[Iterable[Tensor]], *, scale: Any = None, key: int = 0
    ) -> None:
        """Record the norm of all gradients; at an optimizer's first step also samples of each.

        `groups` are the parameters by group, `scale` is the loss scale of the gradients, `key` the
        number of the optimizer. With row-sharded parameters all ranks must call this, as gradients
        are gathered one at a time.
        """
        if self.is_done:
            return
        named_gradients = list(_with_gradients(groups))
        if not named_gradients:
            return
        import torch

        from hotloop.models.row_sharded import whole

        factor = 1.0 if scale is None else 1.0 / float(scale)
        is_first, norms = key not in self._seen, list[Any]()
        self._seen.add(key)
        most = max(1, min(_ELEMENTS, _ALL // len(named_gradients)))
        for name, gradient in named_gradients:
            grad = whole(gradient)
            norms.append(grad.float().norm())
            if is_first:
                named = name if key == 0 else f"{name} of optimizer {key}"
                self._tensors[named] = norms[-1] * factor
                self._samples[named] = _sampled(grad, most).float().cpu()
        first = norms[0].device  # a table of embeddings may lie elsewhere
        self._norms.append(torch.stack([norm.to(first) for norm in norms]).norm() * factor)

    def stepped(self) -> None:
        """Count a finished optimizer step."""
        (self._late_passes if self.is_done else self._passes).append(self._of_step)
        self._of_step = 0
        self.steps += 1

    def news(self) -> Mapping[str, Any]:
        """Return the evidence since the last call, as fields of `core.agreement.Evidence`."""
        evidence: dict[str, Any] = {"late": _numbers(self._late)}
        if self._late_passes:
            evidence["late_passes"] = self._late_passes
        self._late, self._late_passes = [], []
        if self.is_done and not self._reported:
            self._reported = True
            evidence |= {
                "draws": self.draws,
                "losses": _numbers(self._losses),
                "passes": self._passes,
                "norms": _numbers(self._norms),
                "tensors": {name: float(norm) for name, norm in self._tensors.items()},
                "samples": {name: part.tolist() for name, part in self._samples.items()},
            }
        return evidence


def _with_gradients(groups: Iterable[Iterable[Tensor]]) -> Iterator[tuple[str, Tensor]]:
    for group, parameters in enumerate(groups):
        for index, parameter in enumerate(parameters):
            grad = parameter.grad
            if grad is not None and grad.numel():
                if grad.is_sparse:
                    grad = grad.coalesce().values()
                yield f"{group}.{index}", grad.detach()


def _sampled(grad: Tensor, most: int) -> Tensor:
    """Return elements at random fixed places; a regular pattern would leave out whole columns."""
    import torch

    flat = grad.reshape(-1)
    if flat.numel() <= most:
        return flat.clone()
    own = torch.Generator().manual_seed(flat.numel())  # not the script's
    return flat[torch.randint(flat.numel(), (most,), generator=own).to(flat.device)]


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values]
