"""The model probe: what an unmodified script's model holds, runs, repeats and never trains.

It looks at a few of the first forward passes and at the parameters after some updates; what it
kept is worked out when the script is over.
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
from hotloop.observe.probes.module_calls import Calls, autocast, plain, sample, tensors
from hotloop.observe.probes.row_mixing import mixes_rows, sequence_first

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Steps
    from hotloop.core.finding import SourceLocation
    from hotloop.observe.probes.module_calls import Call

__all__ = ["Models", "ModuleObservation"]

_UNUSED = (3, 6)  # looks at which modules that never ran are told from the others
_PASSES = 8  # training passes that are kept
_GRAPHS = 2  # passes whose autograd graph is walked
_KEPT = 2  # models that are kept alive to the end of the run, to be run once more
_FROZEN = 3  # parameters of a frozen module that are compared with what they were
_COMPARED = (0, 2, 5)  # passes at which they are
_CAUSES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError)


@dataclass(slots=True)
class ModuleObservation:
    """What was seen of one outermost module."""

    root: weakref.ref[Any]
    layers: dict[int, layers.ModuleFacts] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    waiting: dict[str, tuple[weakref.ref[Any], int]] = field(
        default_factory=dict
    )  # no gradient yet
    numbers: dict[str, int] = field(default_factory=dict)  # of trainable parameters, by name
    trained: set[int] = field(default_factory=set)  # id() of those that got one
    looks: int = 0  # updates after which the parameters were looked at
    called: set[int] = field(default_factory=set)
    passes: list[tuple[Call, ...]] = field(default_factory=list)
    attention: list[AttentionFacts] = field(default_factory=list)
    graphs: int = 0
    needless: tuple[int, ...] = ()  # modules whose backward pass would train nothing
    modes: Counter[str] = field(default_factory=Counter)
    compute: str | None = None
    output: tuple[int, ...] = ()
    first: dict[int, list[Any]] = field(default_factory=dict)  # numbers of frozen modules at first
    last: dict[int, list[Any]] = field(default_factory=dict)
    unused: dict[int, SourceLocation | None] = field(default_factory=dict)
    rows: int | None = None  # of the first argument
    sequence_first: tuple[str, ...] = ()
    kept: Any = None  # the module itself, to run it when the script has let it go
    given: tuple[Any, Any] | None = None  # arguments of a pass, two rows, to run it again

    @property
    def is_full(self) -> bool:
        """Whether enough forward passes were looked into."""
        return len(self.passes) >= _PASSES or self.modes.total() >= 3 * _PASSES

    def is_steady(self, name: str) -> bool:
        """Whether a module gives the same output for the same input."""
        return any(layer.steady for layer in self.layers.values() if layer.name == name)


class Models(Probe):
    """Watches outermost modules."""

    def __init__(self, observer: Any, again: Any) -> None:
        self._observer, self._again = observer, again
        self._seen: dict[int, ModuleObservation] = {}
        self._calls = Calls()
        self._enough = False

    def on_root_module(self, number: int, module: Any) -> None:
        """Take the parameters' versions before the first forward pass."""
        seen = self._seen[number] = ModuleObservation(weakref.ref(module))
        self._enough = False
        for name, tensor in module.named_parameters():
            if tensor.requires_grad and plain(tensor):
                seen.waiting[name] = weakref.ref(tensor), tensor._version
                seen.numbers[name] = tensor.numel()

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Note an inner call."""
        if not self._enough:
            self._calls.enter(module, args, kwargs)

    def on_inner_return(self, module: Any, output: Any) -> None:
        """Note its end."""
        if not self._enough:
            self._calls.leave(module, output)

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Keep what ran in a forward pass."""
        import torch

        calls, seen = self._calls.take(), self._seen.get(number)
        if seen is None:
            return
        self._enough = all(seen.is_full for seen in self._seen.values())
        trains = torch.is_grad_enabled()
        seen.modes["no grad" if not trains else _mode(module)] += 1
        seen.called.update(call.module for call in calls)
        outputs = list(tensors(output))
        if outputs:
            seen.output = max((tuple(tensor.shape) for tensor in outputs), key=math.prod)
        if not trains or not module.training or len(seen.passes) >= _PASSES:
            return
        if not seen.layers or not {call.module for call in calls} <= seen.layers.keys():
            seen.layers = layers.layers(module)  # the model was changed meanwhile
        seen.facts = seen.facts or layers.facts(module)
        if math.prod(seen.output) == 1 and (
            made := forward_passes.last_product(calls, seen.layers)
        ):
            seen.output = made  # the model returns its loss
        seen.compute = seen.compute or _computes(module, calls, outputs)
        if seen.graphs < _GRAPHS and outputs:
            self._read_graph(seen, outputs, calls, (args, kwargs))
        if seen.given is None and not self._observer.stop.limits.full:
            seen.given = _two_rows(args), _two_rows(kwargs)
            first = next((tensor for tensor in tensors((args, kwargs)) if tensor.dim()), None)
            seen.rows = None if first is None else len(first)
            seen.sequence_first = sequence_first(module)
            # Memory of a card may be needed by what comes after the model.
            attends = seen.attention and not any(t.is_cuda for t in tensors((args, kwargs)))
            if seen.sequence_first or attends:
                self._keep(seen, module)
        if len(seen.passes) in _COMPARED:
            self._watch_frozen(seen, module, calls)
        for call in calls:
            call.output = None
        if calls or not seen.layers:  # later, inner calls are not told of any more
            seen.passes.append(tuple(calls))

    def after_step(self, done: int) -> None:
        """See which parameters have a gradient or were changed by now."""
        for seen in self._seen.values():
            seen.looks += 1
            for name, (kept, version) in list(seen.waiting.items()):
                tensor = kept()
                if tensor is not None and tensor.grad is None and tensor._version == version:
                    continue
                if tensor is not None:
                    seen.trained.add(id(tensor))
                del seen.waiting[name]
            if seen.looks in _UNUSED and (module := seen.root()) is not None:
                never = forward_passes.never_called(seen.layers, seen.called, seen.trained)
                built = {n: layers.built_at(module, seen.layers[n].name) for n in never[:1]}
                seen.unused = {n: built.get(n) for n in never}
                if _idle(seen) and not any(t.is_cuda for t in tensors(seen.given)):
                    self._keep(seen, module)

    def _keep(self, seen: ModuleObservation, module: Any) -> None:
        """Keep a model alive to the end, to run it once more."""
        others = sum(other.kept is not None for other in self._seen.values() if other is not seen)
        seen.kept = module if others < _KEPT else None

    def _read_graph(
        self, seen: ModuleObservation, outputs: list[Any], calls: list[Call], given: Any
    ) -> None:
        graph = Graph(outputs)
        seen.graphs += 1
        seen.attention = graph.attention(seen.facts["dropout"])
        if graph.checkpointed or any(call.checkpointed for call in calls):
            seen.facts["checkpointed"] = True
        elif not any(tensor.requires_grad for tensor in tensors(given)):
            seen.needless = seen.needless or self._needless(seen, calls)

    def _needless(self, seen: ModuleObservation, calls: list[Call]) -> tuple[int, ...]:
        """Return the outermost modules whose backward pass would train nothing."""
        wanted, found = self._wanted(seen), dict[int, None]()
        for call in calls if wanted else ():
            layer = seen.layers.get(call.module)
            if layer is None or call.output is None or not layer.parameters or layer.holds(wanted):
                continue
            above = seen.layers.get(calls[call.parent].module) if call.parent >= 0 else None
            outermost = above is None or above.holds(wanted)
            if outermost and not reaches(call.output, wanted):
                found[call.module] = None
        return tuple(found)

    def _wanted(self, seen: ModuleObservation) -> set[int]:
        """Return the trainable parameters; where optimizers are known, those they hold."""
        held = {
            id(tensor)
            for built in self._observer.optimizers
            if (optimizer := built.thing()) is not None
            for group in optimizer.param_groups
            for tensor in group["params"]
            if tensor.requires_grad
        }
        trainable = {
            number
            for layer in seen.layers.values()
            for number, _, trains in layer.parameters
            if trains
        }
        module = seen.root()
        own = module.parameters() if module is not None else ()
        trainable |= {id(tensor) for tensor in own if tensor.requires_grad}
        return trainable & held or trainable

    def _watch_frozen(self, seen: ModuleObservation, module: Any, calls: list[Call]) -> None:
        """Keep numbers of frozen modules: an average of weights is changed behind autograd."""
        modules = {id(inner): inner for inner in module.modules()}
        frozen = {call.module for call in calls if forward_passes.is_still(call, seen.layers)}
        for number in frozen & modules.keys():
            held = list(modules[number].parameters())
            some = [sample(t) for t in held[:: max(1, len(held) // _FROZEN)] if plain(t)]
            seen.first.setdefault(number, some)
            seen.last[number] = some

    def add_to(self, case: Case) -> Case:
        """Fill in the models of a case; they are those of the observer, the largest first."""
        built = [entry for entry in self._observer.roots if isinstance(entry.facts, Model)]
        built.sort(key=lambda entry: -entry.facts.parameters)
        if len(built) != len(case.models):
            return case
        models = tuple(
            self._filled(model, self._seen[entry.number]) if entry.number in self._seen else model
            for entry, model in zip(built, case.models, strict=True)
        )
        return replace(case, models=models, steps=self._counted(case.steps))

    def _counted(self, steps: Steps) -> Steps:
        """Fill in the operations of a step, where one model is trained."""
        trained = [seen for seen in self._seen.values() if seen.passes]
        each = (
            forward_passes.flops(trained[0].passes, trained[0].layers)
            if len(trained) == 1
            else None
        )
        return replace(steps, flops=each * (steps.backwards or 1.0) if each else None)

    def _filled(self, model: Model, seen: ModuleObservation) -> Model:
        moved = {
            n
            for n in seen.first
            if forward_passes.read(seen.first[n]) != forward_passes.read(seen.last[n])
        }
        again = self._again()
        repeats = tuple(
            replace(repeat, again=again)
            if repeat.frozen and seen.is_steady(repeat.module)
            else repeat
            for repeat in forward_passes.repeats(seen.passes, seen.layers, moved)
        )
        dead = tuple(seen.waiting) if seen.trained else ()
        never = [n for n in seen.unused if n not in seen.called]
        return replace(
            model,
            **seen.facts,
            dead=dead,
            dead_parameters=sum(seen.numbers[name] for name in dead),
            unused=tuple(seen.layers[number].name for number in never if number in seen.layers),
            uncalled_parameters=_uncalled(seen, dead, never),
            discarded=tuple(_discarded(seen)) if seen.trained else (),
            unused_parameters=forward_passes.numbers_of(seen.layers, never, seen.called),
            unused_place=seen.unused[never[0]] if never else None,
            repeats=repeats,
            frozen_graph=seen.layers[seen.needless[0]].name if seen.needless else None,
            frozen_prefix_seconds=forward_passes.seconds_of(set(seen.needless), seen.passes)
            or forward_passes.frozen_seconds(seen.passes, seen.layers, moved),
            attention=tuple(_attention(seen)),
            rows=seen.rows,
            sequence_first=seen.sequence_first,
            mixes_rows=_mixes_rows(seen),
            bias_before_norm=forward_passes.bias_before_norm(seen.passes, seen.layers),
            compute=seen.compute,
            output=seen.output,
            forward_modes=dict(seen.modes),
        )


def _attention(seen: ModuleObservation) -> list[AttentionFacts]:
    """Return what ran, what was asked for, and whether it is causal."""
    root = seen.root()
    asked = getattr(getattr(root, "config", None), "_attn_implementation", None)
    asked = asked if isinstance(asked, str) else None
    found = seen.attention
    if not found and asked in ("eager", "sdpa"):  # compiled, or without gradients
        found = [AttentionFacts(kind="eager" if asked == "eager" else "sdpa")]
    causal = None
    if found and root is not None and seen.given is not None:
        with contextlib.suppress(*_CAUSES):  # it takes no other batch than the one it was given
            causal = is_causal(root, *seen.given)
    return [replace(attention, configured=asked, causal=causal) for attention in found]


def _idle(seen: ModuleObservation) -> list[int]:
    """Return the modules that ran and got no gradient."""
    dead = {id(tensor) for kept, _ in seen.waiting.values() if (tensor := kept()) is not None}
    return without_gradient(seen.passes, seen.layers, dead)


def _discarded(seen: ModuleObservation) -> list[Discarded]:
    """Return the modules among them whose output nothing in the model reads."""
    root = seen.root()
    if root is not None and seen.given is not None and (idle := _idle(seen)):
        with contextlib.suppress(*_CAUSES):  # it takes no other batch than the one it was given
            return discarded(root, seen.given, seen.passes, seen.layers, idle)
    return []


def _uncalled(seen: ModuleObservation, dead: tuple[str, ...], never: list[int]) -> int:
    """Return how many of the dead numbers are in modules that never ran."""
    above = tuple(f"{seen.layers[number].name}." for number in never if number in seen.layers)
    return sum(seen.numbers[name] for name in dead if name.startswith(above))


def _mixes_rows(seen: ModuleObservation) -> bool | None:
    """Return whether rows of a batch meet in the model, and let it go."""
    root, seen.kept = seen.kept, None
    if root is not None and seen.sequence_first and seen.given is not None:
        with contextlib.suppress(*_CAUSES):  # it takes no other batch than the one it was given
            return mixes_rows(root, *seen.given)
    return None


def _mode(module: Any) -> str:
    return "train grad" if module.training else "eval grad"


def _computes(module: Any, calls: list[Call], outputs: list[Any]) -> str | None:
    """Return the dtype of products: autocast's, or that of most weights."""
    if cast := next((call.autocast for call in calls if call.autocast), autocast(outputs)):
        return cast
    dtypes: Counter[str] = Counter()
    for tensor in module.parameters():
        if tensor.is_floating_point():
            dtypes[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return dtypes.most_common(1)[0][0] if dtypes else None


def _two_rows(thing: Any) -> Any:
    """Return arguments with the first two rows of each tensor, copied."""
    import torch

    if isinstance(thing, torch.Tensor):
        return thing.detach()[:2].clone() if thing.dim() and plain(thing) else thing
    if type(thing) in (list, tuple):
        return type(thing)(map(_two_rows, thing))
    if type(thing) is dict:
        return {name: _two_rows(part) for name, part in thing.items()}
    return thing
