"""The model probe: what an unmodified script's model holds, runs, repeats and never trains.

It examines a few of the first forward passes and the parameters after some updates; the results
are computed after the script has ended.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import AttentionFacts, Discarded, Model
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.probes import forward_passes, layers
from hotloop.observe.probes.autograd_graph import Graph, reaches
from hotloop.observe.probes.causal import is_causal
from hotloop.observe.probes.discarded_outputs import discarded, without_gradient
from hotloop.observe.probes.dropout_in_evaluation import drops_in_evaluation, may_drop
from hotloop.observe.probes.module_calls import Calls, autocast, plain, sample, tensors
from hotloop.observe.probes.row_mixing import mixes_rows, sequence_first, unbatched

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Steps
    from hotloop.core.finding import SourceLocation
    from hotloop.observe.probes.module_calls import Call

__all__ = ["Models", "ModuleObservation"]

_UNUSED = (3, 6)  # looks at which the modules that never ran are listed
_PASSES = 8  # training passes that are kept
_GRAPHS = 2  # passes whose autograd graph is walked
_KEPT = 2  # models that are kept alive to the end, to be run once more
_FROZEN = 3  # parameters of a frozen module that are compared with their first values
_COMPARED = (0, 2, 5)  # passes at which they are compared
_CAUSES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError)


@dataclass(slots=True)
class ModuleObservation:
    """The observations of one outermost module."""

    root: weakref.ref[Any]
    layers: dict[int, layers.ModuleFacts] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    # Parameters without a gradient so far, by name, and their first version.
    waiting: dict[str, tuple[weakref.ref[Any], int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # of trainable parameters, by name
    trained: set[int] = field(default_factory=set)  # id() of parameters that got a gradient
    looks: int = 0  # times that the parameters were examined
    called: set[int] = field(default_factory=set)
    passes: list[tuple[Call, ...]] = field(default_factory=list)
    attention: list[AttentionFacts] = field(default_factory=list)
    graphs: int = 0
    needless: tuple[int, ...] = ()  # modules whose backward pass would train nothing
    modes: Counter[str] = field(default_factory=Counter)
    compute: str | None = None
    output: tuple[int, ...] = ()
    first: dict[int, list[Any]] = field(default_factory=dict)  # first numbers of frozen modules
    last: dict[int, list[Any]] = field(default_factory=dict)
    unused: dict[int, SourceLocation | None] = field(default_factory=dict)
    rows: int | None = None  # of the first argument
    sequence_first: tuple[str, ...] = ()
    unbatched: tuple[str, ...] = ()
    may_drop: bool = False  # in evaluation mode
    kept: Any = None  # the module itself, to run it after the script has freed it
    arguments: tuple[Any, Any] | None = None  # arguments of a pass, two rows, to run it again

    @property
    def is_full(self) -> bool:
        """Whether enough forward passes were examined."""
        return len(self.passes) >= _PASSES or self.modes.total() >= 3 * _PASSES

    def is_steady(self, name: str) -> bool:
        """Whether a module gives the same output for the same input."""
        return any(layer.steady for layer in self.layers.values() if layer.name == name)


class Models(Probe):
    """Observes outermost modules."""

    def __init__(self, observer: Any, again: Any) -> None:
        self._observer, self._again = observer, again
        self._records: dict[int, ModuleObservation] = {}
        self._calls = Calls()
        self._enough = False

    def on_root_module(self, number: int, module: Any) -> None:
        """Record the parameters' versions before the first forward pass."""
        record = self._records[number] = ModuleObservation(weakref.ref(module))
        self._enough = False
        for name, tensor in module.named_parameters():
            if tensor.requires_grad and plain(tensor):
                record.waiting[name] = weakref.ref(tensor), tensor._version
                record.numbers[name] = tensor.numel()

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Note an inner call."""
        if not self._enough:
            self._calls.enter(module, args, kwargs)

    def on_inner_return(self, module: Any, output: Any) -> None:
        """Note the end of an inner call."""
        if not self._enough:
            self._calls.leave(module, output)

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Keep the calls of a forward pass."""
        import torch

        calls, record = self._calls.take(), self._records.get(number)
        if record is None:
            return
        self._enough = all(record.is_full for record in self._records.values())
        trains = torch.is_grad_enabled()
        mode = "train grad" if module.training else "eval grad"
        record.modes[mode if trains else "no grad"] += 1
        record.called.update(call.module for call in calls)
        outputs = list(tensors(output))
        if outputs:
            largest = max((tuple(tensor.shape) for tensor in outputs), key=math.prod)
            if math.prod(largest) > 1 or not record.output:  # a loss tells less than is known
                record.output = largest
        if not trains or len(record.passes) >= _PASSES:
            return
        if not module.training and record.modes["train grad"]:  # else it is trained in this mode
            return
        if not record.layers or not {call.module for call in calls} <= record.layers.keys():
            record.layers = layers.layers(module)  # the model was changed meanwhile
        record.facts = record.facts or layers.facts(module)
        if math.prod(record.output) == 1:  # the model may return its loss
            record.output = forward_passes.last_product(calls, record.layers) or record.output
        record.compute = record.compute or _computes(module, calls, outputs)
        if record.graphs < _GRAPHS and outputs:
            self._read_graph(record, outputs, calls, (args, kwargs))
        if record.arguments is None and not self._observer.stop.limits.full:
            first = next((tensor for tensor in tensors((args, kwargs)) if tensor.dim()), None)
            record.rows = None if first is None else len(first)
            record.arguments = (
                _two_rows(args, record.rows or 0),
                _two_rows(kwargs, record.rows or 0),
            )
            record.sequence_first = sequence_first(module)
            record.unbatched = unbatched(module, calls)
            # What follows the model may need the GPU's memory.
            is_on_cpu = not any(t.is_cuda for t in tensors((args, kwargs)))
            record.may_drop = is_on_cpu and may_drop(module)
            meets = record.sequence_first or record.unbatched
            if meets or (record.attention and is_on_cpu) or record.may_drop:
                self._keep(record, module)
        if len(record.passes) in _COMPARED:
            self._watch_frozen(record, module, calls)
        for call in calls:
            call.output = None
        if calls or not record.layers:  # later, inner calls are no longer reported
            record.passes.append(tuple(calls))

    def after_step(self, updates: int) -> None:
        """Record which parameters have a gradient or have changed by now."""
        for record in self._records.values():
            record.looks += 1
            for name, (reference, version) in list(record.waiting.items()):
                tensor = reference()
                if tensor is not None and tensor.grad is None and tensor._version == version:
                    continue
                if tensor is not None:
                    record.trained.add(id(tensor))
                del record.waiting[name]
            if record.looks in _UNUSED and (module := record.root()) is not None:
                never = forward_passes.never_called(record.layers, record.called, record.trained)
                built = {n: layers.built_at(module, record.layers[n].name) for n in never[:1]}
                record.unused = {n: built.get(n) for n in never}
                if _idle(record) and not any(t.is_cuda for t in tensors(record.arguments)):
                    self._keep(record, module)

    def _keep(self, record: ModuleObservation, module: Any) -> None:
        """Keep a model alive to the end, so that it can run once more."""
        others = sum(
            other.kept is not None for other in self._records.values() if other is not record
        )
        record.kept = module if others < _KEPT else None

    def _read_graph(
        self, record: ModuleObservation, outputs: list[Any], calls: list[Call], arguments: Any
    ) -> None:
        graph = Graph(outputs)
        record.graphs += 1
        record.attention = graph.attention(record.facts["dropout"])
        if graph.checkpointed or any(call.checkpointed for call in calls):
            record.facts["checkpointed"] = True
        elif not any(tensor.requires_grad for tensor in tensors(arguments)):
            record.needless = record.needless or self._needless(record, calls)

    def _needless(self, record: ModuleObservation, calls: list[Call]) -> tuple[int, ...]:
        """Return the outermost modules whose backward pass would train nothing."""
        trainable, modules = self._trainable(record), dict[int, None]()
        for call in calls if trainable else ():
            layer = record.layers.get(call.module)
            if layer is None or call.output is None:
                continue
            if not layer.parameters or layer.holds(trainable):
                continue
            above = record.layers.get(calls[call.parent].module) if call.parent >= 0 else None
            outermost = above is None or above.holds(trainable)
            if outermost and not reaches(call.output, trainable):
                modules[call.module] = None
        return tuple(modules)

    def _trainable(self, record: ModuleObservation) -> set[int]:
        """Return id()s of trainable parameters: those in optimizers if there are any, else all."""
        optimised = {
            id(tensor)
            for built in self._observer.optimizers
            if (optimizer := built.reference()) is not None
            for group in optimizer.param_groups
            for tensor in group["params"]
            if tensor.requires_grad
        }
        parameters = [p for layer in record.layers.values() for p in layer.parameters]
        trainable = {number for number, _, trains in parameters if trains}
        module = record.root()
        own = module.parameters() if module is not None else ()
        trainable |= {id(tensor) for tensor in own if tensor.requires_grad}
        return trainable & optimised or trainable

    def _watch_frozen(self, record: ModuleObservation, module: Any, calls: list[Call]) -> None:
        """Sample the numbers of frozen modules: a weight average changes without autograd."""
        modules = {id(inner): inner for inner in module.modules()}
        frozen = {call.module for call in calls if forward_passes.is_still(call, record.layers)}
        for number in frozen & modules.keys():
            parameters = list(modules[number].parameters())
            some = parameters[:: max(1, len(parameters) // _FROZEN)]
            numbers = [sample(tensor) for tensor in some if plain(tensor)]
            record.first.setdefault(number, numbers)
            record.last[number] = numbers

    def add_to(self, case: Case) -> Case:
        """Fill in the models of the case, which are those of the observer, the largest first."""
        built = [entry for entry in self._observer.roots if isinstance(entry.facts, Model)]
        built.sort(key=lambda entry: -entry.facts.parameters)
        if len(built) != len(case.models):
            return case
        records = (self._records.get(entry.number) for entry in built)
        pairs = zip(case.models, records, strict=True)
        models = tuple(self._filled(model, of) if of else model for model, of in pairs)
        return replace(case, models=models, steps=self._counted(case.steps))

    def _counted(self, steps: Steps) -> Steps:
        """Fill in the FLOPs of a step, if exactly one model is trained."""
        trained = [record for record in self._records.values() if record.passes]
        if len(trained) != 1:
            return replace(steps, flops=None)
        per_pass = forward_passes.flops(trained[0].passes, trained[0].layers)
        return replace(steps, flops=per_pass * (steps.backwards or 1.0) if per_pass else None)

    def _filled(self, model: Model, record: ModuleObservation) -> Model:
        read, first = forward_passes.read, record.first
        moved = {n for n in first if read(first[n]) != read(record.last[n])}
        again = self._again()
        repeats = tuple(
            replace(repeat, again=again)
            if repeat.frozen and record.is_steady(repeat.module)
            else repeat
            for repeat in forward_passes.repeats(record.passes, record.layers, moved)
        )
        dead = tuple(record.waiting) if record.trained else ()
        never = [n for n in record.unused if n not in record.called]
        return replace(
            model,
            **record.facts,
            dead=dead,
            dead_parameters=sum(record.numbers[name] for name in dead),
            unused=tuple(record.layers[number].name for number in never if number in record.layers),
            uncalled_parameters=_uncalled(record, dead, never),
            discarded=tuple(_discarded(record)) if record.trained else (),
            unused_parameters=forward_passes.numbers_of(record.layers, never, record.called),
            unused_place=record.unused[never[0]] if never else None,
            repeats=repeats,
            frozen_graph=record.layers[record.needless[0]].name if record.needless else None,
            frozen_prefix_seconds=forward_passes.seconds_of(set(record.needless), record.passes)
            or forward_passes.frozen_seconds(record.passes, record.layers, moved),
            attention=tuple(_attention(record)),
            rows=record.rows,
            sequence_first=record.sequence_first,
            unbatched=record.unbatched,
            drops=_drops(record),
            mixes_rows=_mixes_rows(record),
            bias_before_norm=forward_passes.bias_before_norm(record.passes, record.layers),
            compute=record.compute,
            output=record.output,
            forward_modes=dict(record.modes),
        )


def _attention(record: ModuleObservation) -> list[AttentionFacts]:
    """Return the attention that ran, the configured one, and whether it is causal."""
    root = record.root()
    configured = getattr(getattr(root, "config", None), "_attn_implementation", None)
    configured = configured if isinstance(configured, str) else None
    kinds = record.attention
    if not kinds and configured in ("eager", "sdpa"):  # compiled, or without gradients
        kinds = [AttentionFacts(kind="eager" if configured == "eager" else "sdpa")]
    causal = None
    if kinds and root is not None and record.arguments is not None:
        with contextlib.suppress(*_CAUSES):  # the model may not accept a cut batch
            causal = is_causal(root, *record.arguments)
    return [replace(attention, configured=configured, causal=causal) for attention in kinds]


def _idle(record: ModuleObservation) -> list[int]:
    """Return the modules that ran and got no gradient."""
    waiting = [reference() for reference, _ in record.waiting.values()]
    dead = {id(tensor) for tensor in waiting if tensor is not None}
    return without_gradient(record.passes, record.layers, dead)


def _discarded(record: ModuleObservation) -> list[Discarded]:
    """Return the idle modules whose output nothing in the model reads."""
    root = record.root()
    if root is not None and record.arguments is not None and (idle := _idle(record)):
        with contextlib.suppress(*_CAUSES):  # the model may not accept a cut batch
            return discarded(root, record.arguments, record.passes, record.layers, idle)
    return []


def _uncalled(record: ModuleObservation, dead: tuple[str, ...], never: list[int]) -> int:
    """Return how many of the dead parameters' numbers are in modules that never ran."""
    above = tuple(f"{record.layers[number].name}." for number in never if number in record.layers)
    return sum(record.numbers[name] for name in dead if name.startswith(above))


def _drops(record: ModuleObservation) -> tuple[SourceLocation, ...]:
    """Return the lines that drop numbers in evaluation mode."""
    root = record.root()
    if root is not None and record.may_drop and record.arguments is not None:
        with contextlib.suppress(*_CAUSES):  # the model may not accept a cut batch
            return drops_in_evaluation(root, *record.arguments)
    return ()


def _mixes_rows(record: ModuleObservation) -> bool | None:
    """Return whether rows of a batch mix in the model, and release the model."""
    root, record.kept = record.kept, None
    meets = record.sequence_first or record.unbatched
    if root is not None and meets and record.arguments is not None:
        with contextlib.suppress(*_CAUSES):  # the model may not accept a cut batch
            return mixes_rows(root, *record.arguments, meets)
    return None


def _computes(module: Any, calls: list[Call], outputs: list[Any]) -> str | None:
    """Return the dtype of matrix products: autocast's, or that of most weights."""
    if cast := next((call.autocast for call in calls if call.autocast), autocast(outputs)):
        return cast
    dtypes: Counter[str] = Counter()
    for tensor in module.parameters():
        if tensor.is_floating_point():
            dtypes[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return dtypes.most_common(1)[0][0] if dtypes else None


def _two_rows(value: Any, rows: int) -> Any:
    """Return a copy of the arguments with two rows of each tensor that has `rows`.

    They come first, or second as in the states of a recurrent layer.
    """
    import torch

    if isinstance(value, torch.Tensor):
        if not value.dim() or not plain(value):
            return value
        at = next((at for at, size in enumerate(value.shape[:2]) if size == rows), None)
        kept = value.detach()
        return (kept if at is None else kept.narrow(at, 0, min(2, rows))).clone()
    if type(value) in (list, tuple):
        return type(value)(_two_rows(part, rows) for part in value)
    if type(value) is dict:
        return {name: _two_rows(part, rows) for name, part in value.items()}
    return value
