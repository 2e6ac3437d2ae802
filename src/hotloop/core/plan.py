"""The plan of a run: pure data that can be printed, compared, hashed, stored and run again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

from hotloop.core.digest import digest
from hotloop.core.errors import PlanError, did_you_mean

__all__ = ["SCHEMA", "Plan", "Use", "Value", "elsewhere", "measured_on", "proved_for"]

# History: 1 (2026-11) micro_batch, accumulation, techniques; ranks, for several processes;
# measured and proved_for, in files of tune.
SCHEMA = 1
_PROOF = ("measured", "proved_for")  # keys of a plan file of hotloop tune
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Use:
    """One technique with its choices, sorted by name: hashable, unlike a dict."""

    id: str
    choice: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "choice", tuple(sorted(self.choice, key=itemgetter(0))))

    @classmethod
    def of(cls, id: str, /, **choice: Value) -> Use:
        """Return the use of technique `id` with `choice`."""
        return cls(id, tuple(choice.items()))

    def __str__(self) -> str:
        """Return `id` or `id(name=value, ...)`."""
        return self.id + (f"({', '.join(f'{k}={v}' for k, v in self.choice)})" * bool(self.choice))

    @property
    def typed(self) -> str:
        """Return the argument of --with for it."""
        return ":".join([self.id, *(f"{name}={value}" for name, value in self.choice)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shape of an optimizer step, and the techniques in use, sorted by id.

    Their order has no meaning, because each is applied at its own stage.
    """

    micro_batch: int  # samples of one forward pass
    accumulation: int = 1  # forward passes of one optimizer step, of one rank
    techniques: tuple[Use, ...] = ()
    ranks: int = 1  # processes that share the samples of a step

    def __post_init__(self) -> None:
        if self.micro_batch < 1 or self.accumulation < 1 or self.ranks < 1:
            raise PlanError(
                f"a plan needs a micro batch, an accumulation and a number of ranks of 1 or more, "
                f"not {self.micro_batch}, {self.accumulation} and {self.ranks}"
            )
        ids = [use.id for use in self.techniques]
        if twice := sorted({id for id in ids if ids.count(id) > 1}):
            raise PlanError(f"a plan names a technique twice: {', '.join(twice)}")
        object.__setattr__(self, "techniques", tuple(sorted(self.techniques, key=attrgetter("id"))))

    def choice(self, id: str) -> dict[str, Value] | None:
        """Return the choices of technique `id`, or None when the plan does not use it."""
        return next((dict(use.choice) for use in self.techniques if use.id == id), None)

    def plus(self, id: str, /, **choice: Value) -> Plan:
        """Return this plan with technique `id` added, or its choices replaced."""
        return replace(self, techniques=(*self.minus(id).techniques, Use.of(id, **choice)))

    def minus(self, id: str) -> Plan:
        """Return this plan without technique `id`."""
        return replace(self, techniques=tuple(use for use in self.techniques if use.id != id))

    def over(self, ranks: int, batch_size: int) -> Plan:
        """Return this plan for `ranks` processes, with the same samples in an optimizer step.

        The micro batch does not grow, because memory limits it; more ranks reduce the accumulation
        first.
        """
        if ranks == self.ranks:
            return self
        share = -(-batch_size // ranks)  # samples of the rank that has most
        accumulation = -(-share // self.micro_batch)
        micro_batch = -(-share // accumulation)
        return replace(self, micro_batch=micro_batch, accumulation=accumulation, ranks=ranks)

    def makes(self, batch_size: int) -> bool:
        """Whether an optimizer step takes `batch_size` samples, the accumulation rounded up."""
        return self.accumulation == -(-batch_size // (self.micro_batch * self.ranks))

    @property
    def fingerprint(self) -> str:
        """Return 12 hex digits, equal on all machines for plans without `differences`."""
        return digest(json.dumps(self.to_json(), sort_keys=True))[:12]

    def differences(self, other: Plan) -> list[str]:
        """Return one line for each setting in which `other` differs from this plan."""
        mine, theirs = self._summary(), other._summary()
        return [
            f"{key}: {mine.get(key, 'off')} -> {theirs.get(key, 'off')}"
            for key in sorted(mine.keys() | theirs.keys())
            if json.dumps(mine.get(key)) != json.dumps(theirs.get(key))  # 1 is not True
        ]

    def _summary(self) -> dict[str, object]:
        uses = {use.id: dict(use.choice) or "on" for use in self.techniques}
        return {**self._shape(), **uses}

    def _shape(self) -> dict[str, object]:
        shape = {"micro_batch": self.micro_batch, "accumulation": self.accumulation}
        return {**shape, **({} if self.ranks == 1 else {"ranks": self.ranks})}

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON values."""
        uses = {use.id: dict(use.choice) for use in self.techniques}
        return {"schema": SCHEMA, **self._shape(), "techniques": uses}

    @classmethod
    def from_json(cls, raw: Mapping[str, object], *, place: str = "a plan") -> Plan:
        """Read a plan strictly. Raises PlanError for an unknown key, a wrong type or schema."""
        if not isinstance(raw, Mapping):
            raise PlanError(f"{place} must be an object, not {raw!r}")
        known = ("schema", "micro_batch", "accumulation", "ranks", "techniques", *_PROOF)
        for key in raw:
            if key not in known:
                raise PlanError(
                    f"unknown key {key!r} in {place}{did_you_mean(key, known)}; "
                    f"its keys are {', '.join(known)}"
                )
        schema, micro = raw.get("schema"), raw.get("micro_batch")
        accumulation, ranks = raw.get("accumulation", 1), raw.get("ranks", 1)
        if type(schema) is not int or schema != SCHEMA:
            raise PlanError(f"{place}'s schema is {schema!r}, this version reads {SCHEMA}")
        if not type(micro) is type(accumulation) is type(ranks) is int:
            raise PlanError(
                f"{place}'s micro_batch, accumulation and ranks must be whole numbers, "
                f"not {micro!r}, {accumulation!r} and {ranks!r}"
            )
        uses = raw.get("techniques", {})
        if not isinstance(uses, Mapping):
            raise PlanError(f"{place}'s techniques must map an id to its choices, not be {uses!r}")
        return cls(
            micro_batch=micro,
            accumulation=accumulation,
            ranks=ranks,
            techniques=tuple(_use(id, choice) for id, choice in uses.items()),
        )


def measured_on(raw: Mapping[str, object]) -> Mapping[str, str] | None:
    """Return the machine and versions on which a plan file was proved; None if it was not.

    Raises PlanError if that part is not in the format of hotloop tune.
    """
    return _words(raw, "measured")


def proved_for(raw: Mapping[str, object]) -> Mapping[str, str] | None:
    """Return the run that a plan file was proved for (core/proved_run.py); None if unknown.

    Raises PlanError if that part is not in the format of hotloop tune.
    """
    return _words(raw, "proved_for")


def _words(raw: Mapping[str, object], name: str) -> Mapping[str, str] | None:
    words = raw.get(name)
    if words is None:
        return None
    if not isinstance(words, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in words.items()
    ):
        raise PlanError(f"a plan's {name!r} must map names to words, not be {words!r}")
    return words


def elsewhere(measured: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Return the differences between the machine on which a plan was proved and this one."""
    return [
        f"{name} {measured.get(name, 'unknown')}, here {here.get(name, 'unknown')}"
        for name in sorted(measured.keys() | here.keys())
        if measured.get(name) != here.get(name)
    ]


def _use(id: object, choice: object) -> Use:
    if not isinstance(id, str) or not isinstance(choice, Mapping):
        raise PlanError(f"technique {id!r} of a plan must map to its choices, not {choice!r}")
    for name, value in choice.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise PlanError(f"choice {name!r} of technique {id} must be a word or number")
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(f"choice {name!r} of technique {id} must be finite, not {value}")
    return Use(id, tuple(choice.items()))
