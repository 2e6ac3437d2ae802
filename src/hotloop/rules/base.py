"""The shape of a rule of the doctor. A rule is a value; there is nothing to subclass."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hotloop.core.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Kind

__all__ = ["HEADINGS", "UNSEEN", "Needs", "Rule", "unmet"]

HEADINGS = (
    "Looks at:",
    "Says so when:",
    "Stays silent when:",
    "Remedy:",
    "Numbers:",  # what the remedy does to them: bitwise, rounding, training, or nothing
    "Seen:",
    "Source:",
)
UNSEEN = "not yet seen on a card"  # stands on the page of a rule that only a card can fire


class Needs(enum.Enum):
    """What must have been looked at before a rule can judge. The value says how it is got."""

    STEPS = "no optimizer step was seen"
    STACKS = "no call stacks were sampled"
    LOADER = "no loader was seen"
    CODE = "the script's source was not readable"
    CONFIG = "the script opened no configuration file"
    BATCHES = "no batch was looked at"
    MODEL = "no model was called"
    OPTIMIZER = "no optimizer was built"
    SAVES = "nothing was saved while it was observed"
    EVALUATIONS = "no evaluation was reached"
    CARD = "needs a CUDA card"
    READINGS = "needs readings of the card (nvidia-ml-py)"
    PROFILE = "needs --profile"
    CEILINGS = "needs --ceilings"
    RANKS = "needs more than one process"
    PLANNED_RUN = "no run is planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing the doctor knows. Its file's docstring is its page in the docs."""

    id: str  # "D13"
    name: str  # "tokenize_hot"
    title: str
    page: str
    # Trusts that `needs` are met. Several findings have several causes.
    judge: Callable[[Case], Finding | Iterable[Finding] | None]
    needs: tuple[Needs, ...] = ()  # of an observed run; PLANNED_RUN: it judges planned runs alone
    before_run: bool = (
        False  # it judges a planned run, `case.planned`, of which `needs` ask nothing
    )
    # The umbrella whose cause this rule names: where both fire they are one finding, led by the
    # rule with the higher `weight`. "D1" for what makes the loop wait for data.
    under: str | None = None
    # Rules that name a cause of this one's, each its own: it becomes evidence of the largest.
    yields_to: tuple[str, ...] = ()
    weight: int = (
        1  # -1 sums up, 0 umbrella, 1 names a setting, 2 names the cause, 3 names the very line
    )
    numerics: Literal["bitwise", "rounding", "training"] | None = None  # of its remedy
    # "not worth it" says what would not pay; such findings stand apart and are never merged.
    kind: Kind = "speed"

    @property
    def label(self) -> str:
        """Return id and name as findings carry them."""
        return f"{self.id} {self.name}"

    def findings(self, case: Case) -> list[Finding]:
        """Return what it says of a case that meets its needs; the rule's kind is the default."""
        said = self.judge(case) or ()
        findings = [said] if isinstance(said, Finding) else said
        return [replace(finding, kind=finding.kind or self.kind) for finding in findings]


def unmet(case: Case, needs: tuple[Needs, ...]) -> str | None:
    """Return why a rule with these needs cannot judge the case, or None.

    They are needs of an observed run: none is unmet by a planned one.
    """
    if case.planned is not None:
        return None
    there = {
        Needs.STEPS: case.steps.count > 0,
        Needs.STACKS: bool(case.stacks),
        Needs.LOADER: bool(case.loaders),
        Needs.CODE: bool(case.sources),
        Needs.CONFIG: bool(case.configs),
        Needs.BATCHES: bool(case.batches),
        Needs.MODEL: bool(case.models),
        Needs.OPTIMIZER: bool(case.optimizers),
        Needs.SAVES: bool(case.saves),
        Needs.EVALUATIONS: bool(case.evaluations),
        Needs.CARD: case.on_card,
        Needs.READINGS: bool(case.readings.get("gpu_utilisation")),
        Needs.PROFILE: case.profiled,
        Needs.CEILINGS: bool(case.ceilings),
        Needs.RANKS: case.process.world > 1,
        Needs.PLANNED_RUN: False,
    }
    return next((need.value for need in needs if not there[need]), None)
