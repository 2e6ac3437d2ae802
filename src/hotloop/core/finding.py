"""The doctor's findings: a claim with its evidence, its cost and its remedies.

Format history of findings.json: schema 1 (2026-11); a finding has the kind of its rule (2026-12,
additional: older files lack it, and it is looked up in the list of rules); `ledger` (2026-12,
additional: of an observed script); `known` of a finding, `tried` of a remedy, and `machine`
(2026-12, additional); `run`, what a later run is compared by, and `comparison`, with a baseline
(2026-12, additional: of an observed script).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from hotloop.core.codec import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.measurement import Measurement

__all__ = [
    "Diagnosis",
    "Effort",
    "Finding",
    "Kind",
    "Known",
    "Remedy",
    "Severity",
    "SourceLocation",
    "by_share",
    "ranked",
]

SCHEMA = 1
Severity = Literal["note", "warn", "critical"]
Effort = Literal["option", "configuration line", "code edit"]  # the least first
# The subject of a rule: seconds; whether the run does what its author believes; whether a planned
# run can be made, come to its end and be judged; a change that would not pay; or what surrounds the
# run and no change of the script or its command improves, such as other programs.
Kind = Literal["speed", "correctness", "planning", "not worth it", "machine"]
# How a finding is known: its seconds or bytes were counted in this run, at that very place; a
# property was checked on the run's real values (equal rows, NaN, perturbed inputs, data pointers,
# settings read back, files that the run opened or wrote); or it was inferred from source code,
# configuration or names, and is a note.
Known = Literal["measured", "proved", "read"]

_RULE = re.compile(r"[A-Z]\d+ [a-z0-9_]+")  # the id and the name, "D13 tokenize_hot"
_WEIGHT = {"note": 0.0, "warn": 0.1, "critical": 1.0}  # of a finding without a share
ABSTAIN, WARN, CRITICAL = 0.02, 0.10, 0.20  # shares of the wall time; the doctor's general gate


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """The place of the cause in the sources."""

    file: str
    line: int | None = None  # from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One remedy for a finding."""

    text: str  # a sentence, with the setting as it is typed
    effort: Effort = "configuration line"
    technique: str | None = None  # id of the technique that is the remedy
    choice: str = ""  # of the technique, as it is typed: "count=0"
    tried: str | None = None  # result of trying it on this run: "tried: 1.9x (1.8-2.0) on 20 steps"

    @property
    def use(self) -> str | None:
        """Return the argument of `--with` for it, or None."""
        return ":".join(filter(None, (self.technique, self.choice))) if self.technique else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule says about a run."""

    # Of its rule: Rule.findings fills them in.
    rule: str = ""  # id and name
    kind: Kind | None = None
    known: Known | None = None  # None: in a file without it, as `Rule.known`
    claim: str  # one sentence, with its figures
    severity: Severity
    share: float | None = None  # of the whole wall time, 0..1: all of its cause
    part: float | None = None  # the part of `share` that the claim is about, if that is less
    saves: float | None = None  # seconds per optimizer step, at most
    ceiling: float | None = None  # how many times faster the run can become by it, at most
    asked_for: bool = False  # by the script's author: a note, whatever it takes
    measured: str | None = None  # what an experiment showed: "measured: a step without it is 2.8x"
    places: Sequence[SourceLocation] = ()
    evidence: Mapping[str, Measurement | str] = field(default_factory=dict)
    because: Sequence[str] = ()  # rules with the same cause, "D26 tiny_epoch: why"
    remedies: Sequence[Remedy] = ()  # the best first

    def __post_init__(self) -> None:
        assert not self.rule or _RULE.fullmatch(self.rule), self.rule

    @property
    def effort(self) -> Effort | None:
        """Return the smallest effort of all remedies; None without a remedy."""
        efforts = {remedy.effort for remedy in self.remedies}
        return next((effort for effort in get_args(Effort) if effort in efforts), None)

    @property
    def is_correctness(self) -> bool:
        """Whether the run does something else than its author believes, which no speed is worth."""
        return self.kind == "correctness"

    @property
    def is_proved_fault(self) -> bool:
        """Whether it is a correctness fault that was proved, which comes before any cost."""
        return self.is_correctness and self.known in ("proved", None)

    def to_json(self) -> dict[str, object]:
        """Return an entry of findings.json."""
        fields = to_json(self)
        behind = {name: fields.pop(name) for name in ("places", "evidence", "because", "remedies")}
        return {**fields, "effort": self.effort, **behind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All findings of the doctor, ranked, with its measurements and what it did not check."""

    wall: Mapping[str, float]  # seconds by row, of what was observed
    steps: int  # optimizer steps that were observed
    step_time: Measurement | None  # of one step; None: none was timed
    findings: Sequence[Finding]
    not_worth_it: Sequence[Finding] = ()
    refuted: Sequence[Finding] = ()  # an experiment showed that their cost is none
    machine: Sequence[Finding] = ()  # of kind "machine", not of `findings`
    not_checked: Sequence[str] = ()  # a sentence each, with the reason
    own_time: float  # the doctor's own seconds, which are not in `wall`
    unstable: str | None = None  # why the step time is unreliable; shown first

    def to_json(self) -> dict[str, object]:
        """Return findings.json."""
        return to_json(self, schema=SCHEMA)


def by_share(share: float, *, warn: float = WARN, critical: float = CRITICAL) -> Severity:
    """Return the severity of a share of the wall time; the caller abstains below ABSTAIN."""
    if share >= critical:
        return "critical"
    return "warn" if share >= warn else "note"


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of a report: proved faults, then by seconds, notes last."""

    def key(finding: Finding) -> tuple[bool, bool, float]:
        weight = _WEIGHT[finding.severity] if finding.share is None else finding.share
        return finding.severity == "note", not finding.is_proved_fault, -weight

    return sorted(findings, key=key)
