"""The loop that people write, over the same model, data and optimizer: what a ladder begins with.

A DataLoader makes and joins each sample in the loop, every micro batch's loss is read, gradients
are clipped, the learning rate follows its schedule. Model and optimizer are those that the plan
makes; validation and saving are the engine's, for a plain loop has none. Rows of tokens come in a
random order and padded, as `bench.ladder.Loop` says; they are tokenised before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch.nn.functional import cross_entropy

from hotloop.data.tokenrows import NO_LOSS, TokenRows
from hotloop.session import Batch
from hotloop.training.step import to_device
from hotloop.tuning.recipetrial import RecipeTrial, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor, nn

    from hotloop.session import Samples

__all__ = ["PlainTrial", "main"]


def main(argv: list[str]) -> None:
    """Make steps until the parent has seen enough; does not return."""
    serve(PlainTrial, argv)


class Each:
    """Samples one by one, as a map-style data set."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        batch = self._samples.batch(0, at, 1)
        return {name: tensor[0] for name, tensor in batch.tensors.items()}


def padded(rows: TokenRows, *, width: int | None) -> Callable[[list[int]], Batch]:
    """Return what joins samples by their number: padded to `width`, or to the longest of them."""

    def join(numbers: list[int]) -> Batch:
        return rows.gather(rows.chosen[numbers], width=width)

    return join


def loss_of_all(model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return a language model's mean loss, a scalar, by the logits of all positions."""
    logits: Tensor = model.logits(tensors)  # type: ignore[operator] # [rows, width, vocabulary]
    said, labels = logits[:, :-1].float().flatten(0, 1), tensors["labels"][:, 1:].flatten()
    return cross_entropy(said, labels, ignore_index=NO_LOSS)


class PlainTrial(RecipeTrial):
    """Makes steps as a plain loop does."""

    _begun = 0

    @property
    def epochs(self) -> int:
        """Epochs begun."""
        return self._begun

    def train(self) -> None:
        """Make steps without an end."""
        import torch

        from hotloop.execute import schedule_of

        session, plan, mark = self.session, self.parts.plan, self.ledger.mark
        rate, clip = schedule_of(self.parts), self.parts.request.config.training.gradient_clip
        optimizer, device, loss_of = session.optimizer, session.device, session.forward
        if (self.asked["loop"] or {}).get("logits") == "all":
            loss_of = partial(loss_of_all, session.model)
        assert optimizer is not None
        step, micro, total = 0, 0, 0.0
        mark("start")
        for batch in self._batches():
            mark("data")
            tensors = (
                to_device(batch, device)
                if isinstance(batch, Batch)
                else {name: tensor.to(device) for name, tensor in batch.items()}
            )
            loss = loss_of(tensors) / plan.accumulation
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
            micro += 1
            if micro % plan.accumulation:
                mark("step")
                continue
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            self.before_update(torch.tensor(total))
            if clip:
                torch.nn.utils.clip_grad_norm_(session.model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            step, total = step + 1, 0.0
            mark("step")
            self.stepped()

    def _batches(self) -> Iterator[dict[str, Tensor] | Batch]:
        """Yield shuffled micro batches, epoch after epoch."""
        from torch.utils.data import DataLoader

        samples = self.parts.job.train
        each: Any = Each(samples)
        how: dict[str, Any] = {}
        if isinstance(samples, TokenRows):
            to_limit = self.asked["loop"]["pads"] == "to the limit"
            limit = self.parts.request.config.data.max_length
            each = range(len(samples))
            how["collate_fn"] = padded(samples, width=limit if to_limit else None)
        size = min(self.parts.plan.micro_batch, len(each))
        loader: Any = DataLoader(each, batch_size=size, shuffle=True, drop_last=True, **how)
        while True:
            self._begun += 1
            yield from loader
