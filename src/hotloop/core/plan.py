"""What to do to a run: pure data that can be printed, diffed, hashed, stored and run again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

from hotloop.core.errors import PlanError, did_you_mean
from hotloop.core.files import digest

__all__ = ["SCHEMA", "Plan", "Use", "Value", "measured_on"]

SCHEMA = 1  # history: 1 (2026-11) micro_batch, accumulation, techniques; measured, in files of tune
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shape of an optimizer step, and the techniques in force, sorted by id.

    Their order says nothing, because each is applied at its own stage.
    """

    micro_batch: int  # samples of one forward pass
    accumulation: int = 1  # forward passes of one optimizer step
    techniques: tuple[Use, ...] = ()

    def __post_init__(self) -> None:
        if self.micro_batch < 1 or self.accumulation < 1:
            raise PlanError(
                f"a plan needs a micro batch and an accumulation of 1 or more, "
                f"not {self.micro_batch} and {self.accumulation}"
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

    @property
    def fingerprint(self) -> str:
        """Hex digits, the same on any machine for plans without `differences`."""
        return digest(json.dumps(self.to_json(), sort_keys=True))[:12]

    def differences(self, other: Plan) -> list[str]:
        """Return one line for each part in which `other` differs from this plan."""
        mine, theirs = self._parts(), other._parts()
        return [
            f"{key}: {mine.get(key, 'off')} -> {theirs.get(key, 'off')}"
            for key in sorted(mine.keys() | theirs.keys())
            if json.dumps(mine.get(key)) != json.dumps(theirs.get(key))  # 1 is not True
        ]

    def _parts(self) -> dict[str, object]:
        return {
            "micro_batch": self.micro_batch,
            "accumulation": self.accumulation,
            **{use.id: dict(use.choice) or "on" for use in self.techniques},
        }

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON values."""
        return {
            "schema": SCHEMA,
            "micro_batch": self.micro_batch,
            "accumulation": self.accumulation,
            "techniques": {use.id: dict(use.choice) for use in self.techniques},
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, object], *, place: str = "a plan") -> Plan:
        """Read a plan strictly: PlanError names an unknown key, a wrong type or schema."""
        if not isinstance(raw, Mapping):
            raise PlanError(f"{place} must be an object, not {raw!r}")
        known = ("schema", "micro_batch", "accumulation", "techniques", "measured")
        for key in raw:
            if key not in known:
                raise PlanError(
                    f"unknown key {key!r} in {place}{did_you_mean(key, known)}; "
                    f"its keys are {', '.join(known)}"
                )
        schema, micro, accumulation = (
            raw.get("schema"),
            raw.get("micro_batch"),
            raw.get("accumulation", 1),
        )
        if type(schema) is not int or schema != SCHEMA:
            raise PlanError(f"{place}'s schema is {schema!r}, this version reads {SCHEMA}")
        if type(micro) is not int or type(accumulation) is not int:
            raise PlanError(
                f"{place}'s micro_batch and accumulation must be whole numbers, "
                f"not {micro!r} and {accumulation!r}"
            )
        uses = raw.get("techniques", {})
        if not isinstance(uses, Mapping):
            raise PlanError(f"{place}'s techniques must map an id to its choices, not be {uses!r}")
        return cls(
            micro_batch=micro,
            accumulation=accumulation,
            techniques=tuple(_use(id, choice) for id, choice in uses.items()),
        )


def measured_on(raw: Mapping[str, object]) -> Mapping[str, str] | None:
    """Return the machine and versions that a plan file says it was proved on; None: it was not.

    Raises PlanError when that part is not as hotloop tune writes it.
    """
    said = raw.get("measured")
    if said is None:
        return None
    if not isinstance(said, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in said.items()
    ):
        raise PlanError(f"a plan's 'measured' must map names to words, not be {said!r}")
    return said


def _use(id: object, choice: object) -> Use:
    if not isinstance(id, str) or not isinstance(choice, Mapping):
        raise PlanError(f"technique {id!r} of a plan must map to its choices, not {choice!r}")
    for name, value in choice.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise PlanError(f"choice {name!r} of technique {id} must be a word or number")
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(f"choice {name!r} of technique {id} must be finite, not {value}")
    return Use(id, tuple(choice.items()))
