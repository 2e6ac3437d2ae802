"""Trains with the loop that people write; its trial is the baseline of a ladder.

A DataLoader makes and collates each sample in the loop; the loss of every micro batch is read,
gradients are clipped, the learning rate follows its schedule. The plan makes the model and the
optimizer; the engine validates and saves, as a plain loop does neither. Rows are tokenised before,
come in a random order, and are padded as in `recipes.building.ladder.PlainLoopKind`. A task
router's rows may be computed one by one, and the frozen model's states at every step.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from hotloop.data.sampling.token_rows import NO_LOSS, TokenRows
from hotloop.engine.step import to_device
from hotloop.session.batch import Batch
from hotloop.tuning.recipe_trial import RecipeTrial, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor, nn

    from hotloop.session.batch import Samples

__all__ = ["PlainTrial", "main"]


def main(argv: list[str]) -> None:
    """Make steps until the parent ends this process; does not return."""
    serve(PlainTrial, argv)


class SampleDataset:
    """A map-style data set of single samples."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        batch = self._samples.batch(0, index, 1)
        return {name: tensor[0] for name, tensor in batch.tensors.items()}


def padded(rows: TokenRows, *, width: int | None) -> Callable[[list[int]], Batch]:
    """Return a collate function for sample numbers that pads to `width`, or to the longest row."""

    return lambda numbers: rows.gather(rows.chosen[numbers], width=width)


def loss_of_all(model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return a language model's mean loss, a scalar, from the logits of all positions."""
    logits: Tensor = model.logits(tensors)  # type: ignore[operator] # [rows, width, vocabulary]
    predictions, labels = logits[:, :-1].float().flatten(0, 1), tensors["labels"][:, 1:].flatten()
    return cross_entropy(predictions, labels, ignore_index=NO_LOSS)


def each_row(
    batch: Mapping[str, Any], loss_of: Callable[[Mapping[str, Any]], Tensor]
) -> Iterator[Tensor]:
    """Yield the contribution of each row, computed alone, to a batch's mean loss; scalars."""
    tensors = {name: tensor for name, tensor in batch.items() if name != "targets"}
    count = len(tensors["input_ids"])
    targets = torch.ones(count)
    if "labels" in tensors:
        targets = (tensors["labels"][:, 1:] != NO_LOSS).sum(1)
    for row, share in enumerate((targets / targets.sum()).tolist()):
        yield loss_of({name: tensor[row : row + 1] for name, tensor in tensors.items()}) * share


class PlainTrial(RecipeTrial):
    """Makes steps as a plain loop does."""

    _begun = 0
    _again: Callable[[Tensor], Tensor] | None = None  # rows of the file -> features, computed

    @property
    def epochs(self) -> int:
        """Number of epochs begun."""
        return self._begun

    def train(self) -> None:
        """Make steps until this process is ended."""
        from hotloop.jobs.build_loop import schedule_of

        session, plan, mark = self.session, self.prepared.plan, self.wall_time.mark
        rate, clip = schedule_of(self.prepared), self.prepared.request.config.training.gradient_clip
        optimizer, device, loss_of = session.optimizer, session.device, session.forward
        requested = self.requested["loop"] or {}
        if requested.get("logits") == "all":
            loss_of = partial(loss_of_all, session.model)
        job = self.prepared.job
        alone = requested.get("rows") == "one at a time" and isinstance(job.train, TokenRows)
        if requested.get("frozen") == "again" and job.computed is not None:
            width = self._limit if requested["pads"] == "to the limit" else None
            self._again = job.computed(device, width)
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
            if self._again is not None:
                tensors = {**tensors, "features": self._again(tensors["row"])}
            for loss in each_row(tensors, loss_of) if alone else [loss_of(tensors)]:
                (loss / plan.accumulation).backward()  # type: ignore[no-untyped-call]
                total += loss.item() / plan.accumulation
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

    @property
    def _limit(self) -> int:
        longest: int = self.prepared.request.config.data.max_length
        return longest

    def _batches(self) -> Iterator[dict[str, Tensor] | Batch]:
        """Yield shuffled micro batches, epoch after epoch."""
        from torch.utils.data import DataLoader

        samples = self.prepared.job.train
        dataset: Any = SampleDataset(samples)
        loader_options: dict[str, Any] = {}
        if isinstance(samples, TokenRows):
            to_limit = self.requested["loop"]["pads"] == "to the limit"
            dataset = range(len(samples))
            loader_options["collate_fn"] = padded(samples, width=self._limit if to_limit else None)
        size = min(self.prepared.plan.micro_batch, len(dataset))
        loader_options |= {"batch_size": size, "shuffle": True, "drop_last": True}
        loader: Any = DataLoader(dataset, **loader_options)
        while True:
            self._begun += 1
            yield from loader
