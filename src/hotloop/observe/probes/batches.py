"""The batch probe: what an unmodified script gives its model, from sampled batches.

Only tensors in host memory are read, at most a million numbers of each batch.
"""

from __future__ import annotations

import linecache
import statistics
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.steps_and_loaders import BatchFacts as Facts
from hotloop.core.case.steps_and_loaders import RowLengths
from hotloop.observe.hooks.describe import nbytes
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.observe.probes import leaked_rows, padding, rows
from hotloop.observe.probes.dataset_fetches import Fetches
from hotloop.observe.probes.decoded import decode
from hotloop.observe.probes.loader_samples import LoaderSamples
from hotloop.observe.probes.module_calls import plain
from hotloop.observe.probes.prompts import labelled_prompts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["BatchProbe", "fields"]

_MOST = 48  # batches that are kept; of later ones, only hashes
_HASHED = 1 << 15  # rows
_LARGEST = 1 << 20  # numbers of a batch that are examined
_KEPT = 1 << 21  # numbers that are kept of one loader
_FLOATS = 4096  # numbers of a batch's label: an image as the target has no values to count
_LINES = 30  # lines of a __getitem__ that are searched for random numbers
_LABELS = ("labels", "label", "targets", "target", "y")
_INPUTS = ("input_ids", "inputs", "input", "x", "tokens", "ids")


class BatchProbe(Probe):
    """Observes loaders or, where there is none, the arguments of outermost modules."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._by_loader: dict[int, LoaderSamples] = {}
        self._order: list[tuple[int, int]] = []  # (loader's number, its epoch) in order of reading
        self._made = LoaderSamples()  # hand-made batches
        self._fetches = Fetches(observer.hooks)

    def on_torch_imported(self) -> None:
        """Install the hook that times loaders without workers."""
        self._fetches.install()

    def on_epoch(self, loader: Any) -> None:
        """Begin an epoch. Examine its first batches, which show whether the order is kept."""
        self._observer.look()
        number = next(b.number for b in self._observer.loaders if b.reference() is loader)
        samples = self._by_loader.setdefault(number, LoaderSamples())
        samples.epoch, samples.in_epoch = samples.epoch + 1, 0
        samples.data = id(loader.dataset)
        self._fetches.began(loader, number)

    def on_batch(self, number: int, batch: Any) -> None:
        """Keep what the probe needs from a batch."""
        samples = self._by_loader.setdefault(number, LoaderSamples())
        if self._order[-1:] != [(number, samples.epoch)] and len(self._order) < _HASHED:
            self._order.append((number, samples.epoch))
        self._keep(samples, dict(fields(batch)), batch)

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Take the arguments of a forward pass as a batch if no loader gave one."""
        import torch

        if self._by_loader or not torch.is_grad_enabled():
            return
        if not any(True for _ in module.parameters()):
            self._add_label(list(fields(args)))  # a loss module: its second argument is the label
            return
        arguments = {**dict(fields(args)), **dict(fields(kwargs))}
        self._made.place = self._made.place or here()
        self._keep(self._made, arguments, arguments)

    def _add_label(self, arguments: list[tuple[str, Any]]) -> None:
        samples = self._made
        if samples.count and samples.label in (None, "target") and len(arguments) == 2:
            samples.label = "target"
            target = arguments[1][1]
            on_cpu = plain(target) and target.device.type == "cpu"
            if on_cpu and len(samples.labels) < samples.count:
                samples.shapes.setdefault("target", tuple(target.shape))
                _keep_label(samples, target)

    def _keep(self, samples: LoaderSamples, named_tensors: dict[str, Any], batch: Any) -> None:
        tensors = {n: t for n, t in named_tensors.items() if plain(t) and t.device.type == "cpu"}
        samples.in_epoch += 1
        if not tensors:
            return
        if not samples.shapes:
            samples.shapes = {name: tuple(t.shape) for name, t in tensors.items()}
            samples.main, samples.label = _main(tensors), _label(tensors)
            samples.names = _beside(tensors, samples.main)
            prompts = labelled_prompts(tensors, samples.main, samples.label)
            samples.prompt, samples.prompts = prompts or (None, None)
            samples.pinned = any(t.is_pinned() for t in tensors.values()) if _on_gpu() else None
        main = tensors.get(samples.main or "")
        if main is not None and main.dim() and samples.hashed < _HASHED:
            hashes = rows.hashes(tensors, samples.names)
            samples.hashed += len(hashes)
            samples.rows[samples.epoch] += hashes
            if samples.in_epoch == 1:
                samples.started[samples.epoch] = rows.inputs(hashes)
        if samples.count >= _MOST or samples.numbers > _KEPT:
            return
        samples.count += 1
        samples.bytes.append(nbytes(batch))
        samples.dtypes |= {str(t.dtype).removeprefix("torch.") for t in tensors.values()}
        if main is not None and main.dim():
            self._keep_rows(samples, main, tensors)
        if (label := tensors.get(samples.label or "")) is not None:
            _keep_label(samples, label)
            if samples.label != samples.main and padding.is_tokens(label):
                samples.targets.append(label.detach()[: _rows_of(label)].clone())
                samples.numbers += samples.targets[-1].numel()

    def _keep_rows(self, samples: LoaderSamples, main: Any, tensors: dict[str, Any]) -> None:
        samples.varieties.add(tuple(main.shape))
        samples.sizes.append(main.shape[0])
        if not padding.is_tokens(main) or _is_of_series(main, tensors):
            return
        first_rows = main.detach()[: _rows_of(main)]
        samples.tokens.append(first_rows.clone())
        samples.numbers += first_rows.numel()
        if (real := padding.unpadded(tensors, first_rows)) is not None:
            samples.masks.append(real)
        if samples.decoded is None:
            samples.decoded = decode(first_rows[0].tolist())

    # When the run is over.

    def again(self) -> float | None:
        """Return the share of the training batches whose rows came in an earlier epoch, or None."""
        shares = map(self._again, self._by_loader.values())
        return max((share for share in shares if share is not None), default=None)

    def _again(self, samples: LoaderSamples) -> float | None:
        if samples.epoch < 2:
            return None
        length = self._length_of(samples)
        total = sum(map(len, samples.rows.values()))
        inputs = {epoch: rows.inputs(hashes) for epoch, hashes in samples.rows.items()}
        if length and total:  # rows without content are left out on both sides
            length = round(length * sum(map(len, inputs.values())) / total)
        same = rows.came_again(inputs, samples.started, length)
        return None if same is None else same * (samples.epoch - 1) / samples.epoch

    def _length_of(self, samples: LoaderSamples) -> int | None:
        number = next((n for n, other in self._by_loader.items() if other is samples), None)
        built = [b for b in self._observer.loaders if b.number == number]
        return built[0].facts.length if built and built[0].facts is not None else None

    def add_to(self, case: Case) -> Case:
        """Add the batches, and the facts of loaders that only their use shows."""
        loaders = {loader.key: loader for loader in case.loaders}
        for number, samples in self._by_loader.items():
            if (loader := loaders.get(number)) is not None:
                loaders[number] = self._loader(loader, samples)
        batches = [
            self._compared(number, loaders, _facts(samples, loaders[number]))
            for number, samples in self._by_loader.items()
            if samples.count and number in loaders
        ]
        if self._made.count:
            batches.append(_facts(self._made, None))
        steps = case.steps
        if steps.samples is None:
            steps = replace(steps, samples=self._samples(loaders), tokens=self._tokens(loaders))
        in_order = tuple(loaders.get(loader.key, loader) for loader in case.loaders)
        return replace(case, batches=(*case.batches, *batches), loaders=in_order, steps=steps)

    def _training(self, loaders: dict[int, Loader]) -> list[LoaderSamples]:
        named = [k for n, k in self._by_loader.items() if n in loaders and _trains(loaders[n])]
        return named or ([self._made] if self._made.count else [])

    def _samples(self, loaders: dict[int, Loader]) -> float | None:
        sizes = [size for samples in self._training(loaders) for size in samples.sizes]
        return statistics.median(sizes) if sizes else None

    def _tokens(self, loaders: dict[int, Loader]) -> float | None:
        counts = [t.numel() for samples in self._training(loaders) for t in samples.tokens]
        return statistics.median(counts) if counts else None

    def _compared(self, number: int, loaders: dict[int, Loader], facts: Facts) -> Facts:
        """Compare the rows of an evaluation with the rows that were trained on."""
        if facts.role != "evaluate":
            return facts
        known = [n for n in self._by_loader if n in loaders]
        trains = {n: loaders[n].length for n in known if _trains(loaders[n])}
        read = self._order, self._by_loader, trains, number
        return replace(
            facts,
            in_evaluation=leaked_rows.shared(*read),
            of_training=leaked_rows.reads_training_data(*read),
        )

    def _loader(self, loader: Loader, samples: LoaderSamples) -> Loader:
        timed = self._fetches.of(loader.key)
        return replace(
            loader,
            batch_bytes=round(statistics.median(samples.bytes)) if samples.bytes else None,
            dtypes=tuple(sorted(samples.dtypes)),
            pinned=samples.pinned,
            uses_random=timed.uses_random if loader.uses_random is None else loader.uses_random,
            items=tuple(timed.items) or loader.items,
            collates=tuple(timed.collates) or loader.collates,
            repeats=timed.repeats if timed.repeats is not None else loader.repeats,
            in_memory=timed.views or loader.in_memory,
        )


def _is_of_series(main: Any, tensors: dict[str, Any]) -> bool:
    """Whether integers are the times, or other marks, of a series of numbers beside them."""
    numbers = [t for t in tensors.values() if t.is_floating_point() and t.dim() == 3]
    return any(t.shape[:2] == main.shape[:2] for t in numbers)


def _rows_of(tokens: Any) -> int:
    """Return how many rows are kept of a batch."""
    return max(1, _LARGEST // max(1, int(tokens.shape[1])))


def _targets(labels: list[Any]) -> RowLengths | None:
    """Return the lengths of labels that end in padding, or None."""
    widths, lengths, pad, _ = padding.lengths(labels, ())
    if pad is None:
        return None
    return RowLengths(
        widths=tuple(widths), lengths=tuple(lengths), rows=tuple(map(len, labels)), pad_id=pad
    )


def _keep_label(samples: LoaderSamples, label: Any) -> None:
    values = label.detach().reshape(-1)[: _FLOATS if label.is_floating_point() else _LARGEST]
    samples.labels.append(values.clone())
    samples.numbers += values.numel()


def _facts(samples: LoaderSamples, loader: Loader | None) -> Facts:
    """Return the facts of one loader's batches."""
    widths, lengths, pad, waste = padding.lengths(samples.tokens, samples.masks)
    indexed = loader is not None and _is_indexed(loader)
    shifted = rows.shift(samples.tokens, loader.length if loader else None) if indexed else None
    values, ignored = rows.label_values(samples.labels)
    evaluates = loader is not None and not _trains(loader)
    return Facts(
        loader=None if loader is None else loader.key,
        role="evaluate" if evaluates else "train",
        sampled=samples.count,
        shapes=samples.shapes,
        widths=tuple(widths),
        lengths=tuple(lengths),
        rows=tuple(map(len, samples.tokens)),
        pad_id=pad,
        padding=waste,
        truncated=padding.truncated(widths, lengths) if waste else None,
        ignored=ignored,
        # The end of an epoch is unknown where batches are hand-made or streamed.
        duplicated=rows.duplicated(samples.rows) if indexed else None,
        shifted=shifted,
        overlap=min(widths) / shifted if shifted else None,
        label=samples.label,
        labels=values,
        targets=_targets(samples.targets),
        prompt=samples.prompt,
        prompts=samples.prompts,
        decoded=samples.decoded,
        place=samples.place if loader is None else loader.place,
        variety=len(samples.varieties) or None,
    )


def _trains(loader: Loader) -> bool:
    return loader.role == "train"


def _is_indexed(loader: Loader) -> bool:
    """Whether an index always gives the same row: the data set neither draws nor streams rows."""
    if loader.iterable or loader.uses_random:
        return False
    if loader.uses_random is None and loader.getitem is not None:  # workers: only the code shows it
        file, first = loader.getitem.file, loader.getitem.line or 1
        return not any("rand" in linecache.getline(file, first + n) for n in range(_LINES))
    return True


def fields(batch: Any, name: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a batch with their names: keys, or positions from 0."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield name or "0", batch
    elif depth and hasattr(batch, "items") and callable(batch.items):
        for key, part in batch.items():
            yield from fields(part, f"{name}.{key}" if name else str(key), depth - 1)
    elif depth and isinstance(batch, list | tuple):
        for position, part in enumerate(batch):
            yield from fields(part, f"{name}.{position}" if name else str(position), depth - 1)


def _main(tensors: dict[str, Any]) -> str | None:
    """Return the name of the main input: a usual name, else token ids, else the first field."""
    last = {name.rpartition(".")[2]: name for name in tensors}
    usual = next((last[name] for name in _INPUTS if name in last), None)
    tokens = (name for name, tensor in tensors.items() if padding.is_tokens(tensor))
    return usual or next(tokens, None) or next(iter(tensors), None)


def _beside(tensors: dict[str, Any], main: str | None) -> tuple[str, ...]:
    """Return the names of the main input and of the other fields with as many rows."""
    if main is None or not tensors[main].dim():
        return ()
    rows_ = len(tensors[main])
    return (main, *(n for n, t in tensors.items() if n != main and t.dim() and len(t) == rows_))


def _label(tensors: dict[str, Any]) -> str | None:
    """Return the name of the label: a usual name, else the last of the fields in order."""
    last = {name.rpartition(".")[2]: name for name in tensors}
    usual = next((last[name] for name in _LABELS if name in last), None)
    if usual is not None or not all(name.isdigit() for name in tensors) or len(tensors) != 2:
        return usual
    return list(tensors)[1]


def _on_gpu() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_initialized())
