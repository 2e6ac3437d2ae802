"""The result of a search for a faster plan: trials, decisions, and the proof of the kept plan."""

import html
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hotloop.core.agreement import Parity
from hotloop.core.codec import from_json, to_json
from hotloop.core.errors import DataError
from hotloop.core.finding import SourceLocation
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.trial import Comparison, Trial
from hotloop.core.units import bytes_, duration, moment

__all__ = [
    "SCHEMA",
    "Decision",
    "Edit",
    "FixedCost",
    "TuneRow",
    "Tuned",
    "WholeRun",
    "pays_back",
    "untried",
]

SCHEMA = 1  # of trials.json; history: 1 (2026-11) first
Decision = Literal[
    "baseline",
    "kept",
    "dropped",
    "cannot be told",
    "not needed here",
    "refused",
    "failed",
    "not tried",
    "proved",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRow:
    """One trial, or the reason why there was none."""

    name: str  # what was changed
    decision: Decision
    why: str  # a sentence without its full stop
    plan: Plan | None = None  # that was tried
    comparison: Comparison | None = None  # with the best plan so far; for proofs, with the baseline
    parity: Parity | None = None  # with the baseline
    step_time: Measurement | None = None  # seconds
    started: float | None = None  # seconds to the end of the first step: import, model, compiling
    warm_up: float | None = None  # extra seconds of the first steps: the first epoch
    compiled: float | None = None  # seconds of compiling in `started`, if known
    steps: int = 0  # timed
    peak_bytes: int | None = None
    pays_back: int | None = None  # steps after which the one-time cost is recovered
    seconds: float = 0.0  # that the trial took

    @property
    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Return it as texts: name, decision, times as fast, seconds of a step, memory, why."""
        return (
            self.name,
            self.decision,
            "" if self.comparison is None else self.comparison.factor,
            "" if self.step_time is None else f"{moment(self.step_time.median)} a step",
            "" if self.peak_bytes is None else bytes_(self.peak_bytes),
            self.why,
        )

    @classmethod
    def of(cls, trial: Trial, name: str, decision: Decision, why: str, **more: object) -> "TuneRow":
        """Return the row of a trial."""
        names = ("plan", "step_time", "started", "warm_up", "compiled", "steps", "peak_bytes")
        more |= {name: getattr(trial, name) for name in names}
        return cls(name=name, decision=decision, why=why, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """A cost of a run besides its steps."""

    what: str
    before: float  # seconds, as it was
    after: float | None = None  # seconds under the plan; None: not measured again
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """How long the whole run takes, from its start to its end."""

    steps: int | None  # that it makes; None: unknown
    before: tuple[float, ...]  # seconds of each run, as it is
    after: tuple[float, ...]  # under the plan
    is_measured: bool = True  # False: estimated from its start, its steps and what lies between

    @property
    def factor(self) -> float:
        """Return how many times as fast the whole run is under the plan."""
        return statistics.median(self.before) / statistics.median(self.after)

    @property
    def said(self) -> str:
        """Return the gain as a phrase."""
        steps = f" of {self.steps:,} steps" if self.steps is not None else ""
        before, after = (duration(statistics.median(each)) for each in (self.before, self.after))
        how = f"measured, n {len(self.after)}" if self.is_measured else "estimated"
        return f"{self.factor:.2f}x the whole run{steps} ({after} instead of {before}, {how})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A finding without a technique: the code or a setting has to be changed."""

    rule: str  # of the doctor
    claim: str
    share: float | None  # of the wall time
    places: tuple[SourceLocation, ...]
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of a search."""

    target: tuple[str, ...]  # as typed
    where: Mapping[str, str]  # the machine and the versions for which it is valid
    baseline: Plan
    plan: Plan  # the baseline if nothing is worth it
    rows: tuple[TuneRow, ...]
    proof: TuneRow | None = None  # the result against the baseline, measured last
    whole: WholeRun | None = None  # under the proved plan
    edits: tuple[Edit, ...] = ()
    costs: tuple[FixedCost, ...] = ()
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds, in their order
    stopped: str | None = None  # why it ended before everything was tried
    notes: tuple[str, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether the plan was measured against the baseline, and is faster at equal losses."""
        return self.proof is not None and self.proof.decision == "proved"

    @property
    def spent(self) -> str:
        """Return what the time went to, as a phrase; without phases of less than 1 %."""
        spent = [
            f"{name} {duration(seconds)}"
            for name, seconds in self.phases.items()
            if seconds >= 0.01 * self.seconds
        ]
        return ", ".join(spent)

    @property
    def said(self) -> str:
        """Return the result as a sentence."""
        proof = self.proof
        others = [row for row in self.rows if row.decision != "baseline"]
        if not any(row.plan is not None for row in others):
            if others and self.stopped is None:
                return "nothing is worth it: no technique has an effect here"
            return "nothing was tried" + (f": {self.stopped}" if self.stopped else "")
        if self.plan == self.baseline:
            return self._nothing_kept
        if proof is None or proof.comparison is None:
            return "a faster plan was found but not proved against the baseline"
        if self.whole is not None:
            return f"{proof.comparison.factor} a step, {self.whole.said}; {proof.why}"
        return f"{proof.comparison.factor} as fast as the baseline; {proof.why}"

    @property
    def unsure(self) -> list[str]:
        """Return the names of the changes of which it cannot be told whether they are faster."""
        rows = [*self.rows, *([self.proof] if self.proof else [])]
        return list(dict.fromkeys(row.name for row in rows if row.decision == "cannot be told"))

    @property
    def _nothing_kept(self) -> str:
        """Return why the plan is the baseline's: nothing is faster, or that is unknown."""
        proof = self.proof
        why = f": {proof.why}" if proof is not None else ""
        if proof is not None and proof.decision == "cannot be told":
            return f"it is not known whether {proof.name} is faster{why}"
        if proof is None and self.unsure:
            names = ", ".join(self.unsure)
            return f"nothing was shown to be faster; the trials are too noisy to decide on {names}"
        return f"nothing that was tried is worth it{why}"

    def __str__(self) -> str:
        """Return the result as text: the sentence, and a line for each row."""
        lines = (f"  {'; '.join(filter(None, cells))}" for cells in self._table)
        return "\n".join([self.said, *lines])

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it: the sentence, and the table of the trials."""
        titles = ("what", "decision", "times as fast", "a step", "memory", "why")
        rows = [
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
            for tag, cells in (("th", titles), *(("td", cells) for cells in self._table))
        ]
        texts = [f"<p>{html.escape(text)}</p>" for text in (self.stopped, *self.notes) if text]
        said = f"<p><strong>{html.escape(self.said)}</strong></p>"
        return "".join([said, *texts, "<table>", *rows, "</table>"])

    @property
    def _table(self) -> list[tuple[str, ...]]:
        """Return the cells of all trials with the proof, then of what was not tried, by reason."""
        rows = [*self.rows, *([self.proof] if self.proof else [])]
        return [
            *(row.cells for row in rows if row.plan is not None),
            *(
                (", ".join(names), decision, "", "", "", why)
                for (decision, why), names in untried(rows).items()
            ),
        ]

    def to_json(self) -> dict[str, object]:
        """Return trials.json."""
        return to_json(self, schema=SCHEMA)

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> "Tuned":
        """Read trials.json. Raises DataError for another schema or another kind of file."""
        if raw.get("schema") != SCHEMA:
            raise DataError(
                f"the trials have schema {raw.get('schema')!r}; "
                f"this version of hotloop reads {SCHEMA}"
            )
        return from_json(cls, {key: value for key, value in raw.items() if key != "schema"})


def untried(rows: Sequence[TuneRow]) -> dict[tuple[str, str], list[str]]:
    """Return the names of rows without a trial by (decision, why)."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.plan is None:
            names.setdefault((row.decision, row.why), []).append(row.name)
    return names


def pays_back(trial: Trial, base: Trial) -> int | None:
    """Return the steps after which a faster plan has recovered its one-time cost; None: never."""
    times, once = (trial.step_time, base.step_time), (trial.once, base.once)
    if None in times or None in once:
        return None
    saved = times[1].median - times[0].median  # type: ignore[union-attr]
    cost = once[0] - once[1]  # type: ignore[operator]
    if saved <= 0:
        return None
    return max(0, math.ceil(cost / saved))
