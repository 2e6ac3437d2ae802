"""What sampled forward passes show: repeats, frozen parts, modules that never run."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.finding import SourceLocation
    from hotloop.observe.probes.layers import ModuleFacts
    from hotloop.observe.probes.module_calls import Call

    Pass = tuple[Call, ...]

__all__ = [
    "bias_before_norm",
    "flops",
    "frozen_seconds",
    "is_still",
    "last_product",
    "never_called",
    "numbers_of",
    "places_of",
    "read",
    "repeats",
    "seconds_of",
]

_REPEATS = 50


def repeats(
    passes: Sequence[Pass], layers: Mapping[int, ModuleFacts], moved: Iterable[int] = ()
) -> list[Repeat]:
    """Return the modules that ran more than once per pass, and the outermost frozen ones.

    Most passes must agree. Modules with equal inputs come first, then frozen ones, then by time.
    """
    if not passes:
        return []
    frozen = _frozen(passes, layers, set(moved))
    numbers = {call.module for calls in passes for call in calls}
    candidates = [
        _repeat(number, passes, layers[number], number in frozen)
        for number in numbers
        if number in layers
    ]
    results = [repeat for repeat in candidates if repeat.calls > 1 or repeat.frozen]
    results.sort(key=lambda r: (not r.repeated, not r.frozen, -(r.seconds or 0.0), r.module))
    return results[:_REPEATS]


def _repeat(number: int, passes: Sequence[Pass], layer: ModuleFacts, frozen: bool) -> Repeat:
    calls_by_pass = [[call for call in calls if call.module == number] for calls in passes]
    alike = [_alike(calls) for calls in calls_by_pass]
    # Equal samples alone are no proof: where sums are known, they decide.
    is_summed = [any(call.summed for call in calls) for calls in calls_by_pass]
    votes = list(itertools.compress(alike, is_summed)) or alike
    with_repeats = [list(itertools.chain(*groups)) for groups in votes if groups]
    last = next(iter(with_repeats), calls_by_pass[-1])
    seconds = [total for total in map(_seconds, calls_by_pass) if total is not None]
    return Repeat(
        module=layer.name,
        kind=layer.kind,
        place=layer.place,
        calls=statistics.fmean(map(len, calls_by_pass)),
        repeated=statistics.median_low([sum(len(group) - 1 for group in gs) for gs in votes]),
        frozen=frozen,
        parameters=layer.numbers,
        seconds=statistics.median(seconds) if seconds else None,
        call_places=_places(last),
    )


def _alike(calls: Sequence[Call]) -> list[list[Call]]:
    """Return the calls of one pass that had equal inputs, in groups of two and more."""
    groups: dict[Any, list[Call]] = defaultdict(list)
    for call in calls:
        if call.inputs:
            groups[tuple(map(read, call.inputs))].append(call)
    return [group for group in groups.values() if len(group) > 1]


def read(key: Any) -> Any:
    """Return an input's key with the tensors on the GPU copied to the host; only after the run."""
    if isinstance(key, tuple | list):
        return tuple(map(read, key))
    return tuple(key.reshape(-1).tolist()) if hasattr(key, "reshape") else key


def _seconds(calls: Sequence[Call]) -> float | None:
    times = [_time(call) for call in calls]
    timed = [time for time in times if time is not None]
    return sum(timed) if timed else None


def _time(call: Call) -> float | None:
    """Return a call's seconds; on a GPU by its events, or None if they have not passed."""
    if call.events is None or call.events[1] is None:
        return call.seconds
    first, last = call.events
    return float(first.elapsed_time(last)) / 1e3 if last.query() else None


def _places(calls: Sequence[Call]) -> tuple[SourceLocation, ...]:
    return tuple(dict.fromkeys(call.place for call in calls if call.place is not None))


def places_of(module: int, passes: Sequence[Pass]) -> tuple[SourceLocation, ...]:
    """Return the places at which a module (an id()) is called."""
    return _places([call for calls in passes for call in calls if call.module == module])


def _frozen(passes: Sequence[Pass], layers: Mapping[int, ModuleFacts], moved: set[int]) -> set[int]:
    """Return the outermost modules without trainable parameters in them or before them."""
    counts: Counter[int] = Counter()
    for calls in passes:
        still = [call.module not in moved and is_still(call, layers) for call in calls]
        frozen = itertools.compress(calls, still)
        counts.update({call.module for call in frozen if not _within(call, calls, still)})
    return {number for number, count in counts.items() if count * 2 > len(passes)}


def is_still(call: Call, layers: Mapping[int, ModuleFacts]) -> bool:
    """Whether nothing in a module or before it is trained, according to autograd.

    Its parameters may require gradients: under no_grad they get none.
    """
    layer = layers.get(call.module)
    has_parameters = layer is not None and bool(layer.parameters)
    return has_parameters and not call.moving and not call.requires


def _within(call: Call, calls: Sequence[Call], still: Sequence[bool]) -> bool:
    while call.parent >= 0:
        if still[call.parent]:
            return True
        call = calls[call.parent]
    return False


def frozen_seconds(
    passes: Sequence[Pass], layers: Mapping[int, ModuleFacts], moved: Iterable[int] = ()
) -> float | None:
    """Return the seconds per pass of all modules that `repeats` calls frozen; None if none is."""
    return seconds_of(_frozen(passes, layers, set(moved)), passes)


def seconds_of(modules: set[int], passes: Sequence[Pass]) -> float | None:
    """Return the seconds per pass in these modules (id()s); None if they were not timed."""
    if not modules:
        return None
    times = [_seconds([call for call in calls if call.module in modules]) for calls in passes]
    timed = [seconds for seconds in times if seconds is not None]
    return statistics.median(timed) if timed else None


def flops(passes: Sequence[Pass], layers: Mapping[int, ModuleFacts]) -> float | None:
    """Return the floating-point operations of the products in a forward and backward pass.

    Linear layers and convolutions count two for each term, once forward, once for the weight's
    gradient and once for the input's, where these exist. None if other layers have matrices.
    Attention's own products and the recomputation of checkpointing are left out.
    """
    if not passes or any(layer.terms is None or layer.opaque for layer in layers.values()):
        return None
    return statistics.median(
        sum(
            2.0
            * (layer.terms or 0)
            * call.made
            * (1 + call.moving + any(trains for _, _, trains in layer.parameters))
            for call in calls
            if (layer := layers.get(call.module)) is not None
        )
        for calls in passes
    )


def last_product(calls: Sequence[Call], layers: Mapping[int, ModuleFacts]) -> tuple[int, ...]:
    """Return the output shape of the last linear layer or convolution of a pass; () for none.

    A model that returns only its loss computes the loss from that output.
    """
    products = {number for number, layer in layers.items() if layer.product}
    return next((call.shape for call in reversed(calls) if call.module in products), ())


def never_called(
    layers: Mapping[int, ModuleFacts], called: set[int], trained: set[int]
) -> list[int]:
    """Return the outermost modules with parameters that never ran and are not used otherwise.

    `trained` are the parameters that got a gradient: of some modules only the weights are used.
    """
    if not called:  # no inner call was seen: compiled, or replicated to other threads
        return []
    alive = [layers[number] for number in called if number in layers]
    running = {above for layer in alive for above in (*_above(layer.name), layer.name)}
    hidden = {layer.name for layer in alive if layer.opaque}
    used = trained | _used(alive)
    outermost: dict[str, int] = {}
    for number, layer in layers.items():
        inside = any(above in outermost or above in hidden for above in _above(layer.name))
        if layer.name in running or inside or layer.container or layer.within_attention:
            continue
        added = [tensor for tensor, _, trains in layer.parameters if trains or layer.frozen]
        if added and not any(tensor in used for tensor in added):
            outermost[layer.name] = number
    return list(outermost.values())


def _above(name: str) -> list[str]:
    """Return the names of the modules that contain a module, without the outermost one."""
    parts = name.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


def _used(alive: Iterable[ModuleFacts]) -> set[int]:
    return {tensor for layer in alive for tensor in layer.own}


def numbers_of(layers: Mapping[int, ModuleFacts], never: Sequence[int], called: set[int]) -> int:
    """Return how many numbers belong only to modules that never ran."""
    used = _used(layers[number] for number in called if number in layers)
    parameters = [p for number in never if number in layers for p in layers[number].parameters]
    return sum({tensor: count for tensor, count, _ in parameters if tensor not in used}.values())


def bias_before_norm(passes: Sequence[Pass], layers: Mapping[int, ModuleFacts]) -> int:
    """Count the convolutions whose bias the next module, a batch norm, cancels."""
    if not passes:
        return 0
    parents = {call.parent for call in passes[-1]}
    leaves = [call for index, call in enumerate(passes[-1]) if index not in parents]
    convolutions = set()
    for call, following in itertools.pairwise(leaves):
        one, two = layers.get(call.module), layers.get(following.module)
        if one and two and one.biased and two.norm and one.features == two.features:
            convolutions.add(call.module)
    return len(convolutions)
