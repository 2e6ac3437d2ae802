"""Defines the moves of `tune`, each of which turns one plan into another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hotloop import techniques
from hotloop.core.agreement import Promise
from hotloop.core.sharding_ids import SHARING
from hotloop.core.units import many
from hotloop.techniques.base import HostKind, Numerics
from hotloop.techniques.selection import find

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use, Value
    from hotloop.techniques.base import Technique

__all__ = [
    "LEAVE",
    "Limit",
    "Move",
    "added",
    "name_of",
    "ordered",
    "pairs",
    "promise",
    "removed",
    "resized",
    "shared",
    "varied",
]

# Data first, then GPU memory, kernels, host overhead, low precision (TECHNIQUES.md).
ORDER: Final = (
    "sample-cache",
    "vectorised-reads",
    "loader-workers",
    "dynamic-padding",
    "length-bucketing",
    "token-budget",
    "device-prefetch",
    "activation-checkpointing",
    "micro-batch",
    "threads",
    "kept-memory",
    "sdpa",
    "matmul-onednn",
    "channels-last",
    "cudnn-benchmark",
    "tf32",
    "fused-adamw",
    "fused-rms-norm",
    "cuda-graphs",
    "lagged-loss-read",
    "gc-freeze",
    "async-checkpoint",
    "autocast-bf16",
    "autocast-fp16",
    "frozen-16bit",
    "compile",
    "fp8",
    "int8-mixed-precision",
)
# Pairs that can pay together even if neither technique does alone.
PAIRS: Final = (
    ("autocast-bf16", "sdpa"),
    ("loader-workers", "threads"),
    ("compile", "fused-adamw"),
    ("compile", "autocast-bf16"),
    ("autocast-bf16", "micro-batch"),  # half the activations leave room for twice the rows
    ("loader-workers", "device-prefetch"),
)


# What a technique does that is not tried without leave, and how it is tried.
LEAVE: Final[Mapping[Numerics, tuple[str, str]]] = {
    Numerics.ROUNDING: ("it rounds otherwise", "without --exact"),
    Numerics.EQUIVALENT: ("it puts the samples into another order", "with --allow order"),
    Numerics.TRAINING: ("it changes the training", "with --allow training"),
}

# Further choices of a kept technique, tried one after the other.
_FURTHER: Final[Mapping[str, Sequence[Mapping[str, Value]]]] = {
    "loader-workers": ({"ahead": 4}, {"pin": "off"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a technique can take away at most: a part of the time of a step."""

    part: str
    seconds: float  # of a step of the baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of a plan. `change` returns None if it would not change the plan."""

    name: str
    change: Callable[[Plan], Plan | None]
    ids: tuple[str, ...] = ()  # techniques that must be in effect for it to count
    why_not: str | None = None  # why it is never tried
    gain: float | None = None  # share of the run's time that it is expected to take away
    limit: Limit | None = None  # None: nobody knows
    is_urgent: bool = False  # it mends a critical finding
    # Returns why it is not tried on the best plan so far, or None.
    barred: Callable[[Plan], str | None] = lambda plan: None


def name_of(plan: Plan, baseline: Plan) -> str:
    """Return the changes of a plan in words."""
    on = f" on {plan.ranks} ranks" if plan.ranks > 1 else ""
    changes = plan.techniques or plan.differences(baseline)
    return " + ".join(map(str, changes)) + (on if plan.techniques else "")


def added(
    use: Use, *, why_not: str | None = None, known: Sequence[Technique] = techniques.ALL
) -> Move:
    """Return the move that adds a technique and removes those that it excludes."""
    technique = find(use.id, known)

    def change(plan: Plan) -> Plan | None:
        if plan.choice(use.id) == dict(use.choice):
            return None
        for clash in technique.excludes:
            plan = plan.minus(clash)
        return plan.plus(use.id, **dict(use.choice))

    def barred(plan: Plan) -> str | None:
        needed = [id for id in SHARING if id in technique.excludes and plan.choice(id) is not None]
        return f"{needed[0]} excludes it, and {plan.ranks} ranks need that" if needed else None

    return Move(name=str(use), change=change, ids=(use.id,), why_not=why_not, barred=barred)


def shared(id: str, ranks: int, batch_size: int, *, why_not: str | None = None) -> Move:
    """Return the move to `ranks` ranks on GPUs of this machine that share by technique `id`."""

    def change(plan: Plan) -> Plan | None:
        if plan.ranks == ranks and plan.choice(id) is not None:
            return None
        for other in (*SHARING, *techniques.get(id).excludes):
            plan = plan.minus(other)
        return plan.over(ranks, batch_size).plus(id)

    return Move(name=f"{id} on {many(ranks, 'GPU')}", change=change, ids=(id,), why_not=why_not)


def varied(id: str, **choice: Value) -> Move:
    """Return the move to another choice of a technique, for plans that have the technique."""
    words = ", ".join(f"{name}={value}" for name, value in choice.items())

    def change(plan: Plan) -> Plan | None:
        current = plan.choice(id)
        if current is None or current.get("count") == 0 or {**current, **choice} == dict(current):
            return None
        return plan.plus(id, **{**current, **choice})

    return Move(name=f"{id} with {words}", change=change, ids=(id,))


def removed(id: str) -> Move:
    """Return the move that removes a technique."""
    return Move(
        name=f"without {id}",
        change=lambda plan: None if plan.choice(id) is None else plan.minus(id),
    )


def resized(factor: float) -> Move:
    """Return the move to another micro batch with the same samples in an optimizer step."""

    def change(plan: Plan) -> Plan | None:
        whole = plan.micro_batch * plan.accumulation
        micro = round(plan.micro_batch * factor)
        if micro < 1 or micro == plan.micro_batch or whole % micro:
            return None
        return replace(plan, micro_batch=micro, accumulation=whole // micro)

    return Move(name=f"micro batch x{factor:g}", change=change)


def both(first: Move, second: Move) -> Move:
    """Return two moves as one."""

    def change(plan: Plan) -> Plan | None:
        between = first.change(plan)
        return None if between is None else second.change(between)

    return Move(
        name=f"{first.name} + {second.name}",
        change=change,
        ids=(*first.ids, *second.ids),
        why_not=first.why_not or second.why_not,
        barred=lambda plan: first.barred(plan) or second.barred(plan),
    )


def ordered(
    hardware: Hardware,
    host: HostKind,
    *,
    first: Iterable[str] = (),
    last: Collection[str] = (),
    choices: Mapping[str, Sequence[Mapping[str, Value]]] | None = None,
    most: Numerics = Numerics.ROUNDING,
    why_not: Callable[[Technique], str | None] = lambda _: None,
) -> list[Move]:
    """Return a move for each technique of a host and each of its choices worth trying.

    `first` are ids in the order in which they are tried, `last` those after all others. `choices`
    replaces the choices of a technique; one without an entry is tried with its default. A technique
    that cannot work here, or may change the numbers more than `most`, becomes a move with the
    reason. Sharing techniques are left out; see `shared`.
    """
    from hotloop.core.plan import Plan, Use

    known = {t.id: t for t in techniques.ALL if host in t.hosts and t.id not in SHARING}
    order = dict.fromkeys(id for id in (*first, *ORDER, *known) if id in known)
    order = dict.fromkeys(sorted(order, key=lambda id: id in last))
    moves = []
    for id in order:
        technique = known[id]
        reason = why_not(technique)
        if reason is None and technique.numerics > most:
            reason = "{}: {} it is tried".format(*LEAVE[technique.numerics])
        for choice in (choices or {}).get(id, [technique.tried]):
            use = Use.of(id, **choice)
            plan = Plan(micro_batch=1, techniques=(use,))
            moves.append(added(use, why_not=reason or technique.blocked(hardware, plan)))
        if reason is None:
            moves += [varied(id, **more) for more in _FURTHER.get(id, ()) if _fits(more, hardware)]
    return moves


def _fits(choice: Mapping[str, Value], hardware: Hardware) -> bool:
    return "pin" not in choice or hardware.device == "cuda"


def pairs(moves: Sequence[Move], hopeless: Iterable[str]) -> list[Move]:
    """Return the known pairs of these moves; `hopeless` are ids without effect here."""
    out = set(hopeless)
    single = {move.ids[0]: move for move in reversed(moves) if len(move.ids) == 1}
    return [
        both(single[a], single[b])
        for a, b in PAIRS
        if {a, b} <= single.keys()
        and not {a, b} & out
        and not (single[a].why_not or single[b].why_not)
    ]


def promise(plan: Plan, baseline: Plan, *, known: Sequence[Technique] = techniques.ALL) -> Promise:
    """Return how far a plan may differ from the baseline, as its differing techniques promise."""
    changed = {
        id
        for id in {use.id for use in (*plan.techniques, *baseline.techniques)}
        if plan.choice(id) != baseline.choice(id)
    }
    differing = [find(id, known) for id in changed]
    tolerance = sum(technique.tolerance for technique in differing)
    below = sum(1 - technique.cosine for technique in differing)
    if plan.micro_batch != baseline.micro_batch:  # another order of summation
        tolerance, below = tolerance + _ORDER, below + _ORDER**2
    return Promise(
        tolerance=tolerance,
        cosine=1 - below,
        is_training=any(technique.numerics >= Numerics.EQUIVALENT for technique in differing),
        redraws=(plan.micro_batch, plan.ranks) != (baseline.micro_batch, baseline.ranks)
        or any(technique.redraws for technique in differing),
        regroups=any(technique.regroups for technique in differing),
    )


_ORDER: Final = 3e-6  # highest measured effect of fused kernels and other orders of summation
