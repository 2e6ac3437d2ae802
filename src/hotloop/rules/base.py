"""The type of the doctor's rules: a rule is a value, and there is nothing to subclass."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hotloop.core.case.case import Case
from hotloop.core.case.planned_run import PlannedRun
from hotloop.core.finding import (
    ABSTAIN,
    WARN,
    Finding,
    Known,
    Remedy,
    Severity,
    SourceLocation,
    by_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotloop.core.finding import Kind

# With the names in which rules are written: a rule file imports them from here, in one line.
__all__ = [
    "ABSTAIN",
    "HEADINGS",
    "UNSEEN",
    "WARN",
    "Case",
    "Finding",
    "Known",
    "Needs",
    "PlannedRun",
    "Remedy",
    "Rule",
    "Severity",
    "SourceLocation",
    "by_share",
    "code_edit",
    "option",
    "unmet",
]

HEADINGS = (
    "Looks at:",
    "Says so when:",
    "Stays silent when:",
    "Remedy:",
    "Numbers:",  # how the remedy changes the results: bitwise, rounding, training, or not at all
    "Seen:",
    "Source:",
)
UNSEEN = "not yet seen on a GPU"  # on the page of a rule that fires only on a GPU


class Needs(enum.Enum):
    """A fact that a rule needs before it can judge an observed run: how to say it is missing."""

    missing: str
    is_met: Callable[[Case], bool]

    def __init__(self, missing: str, is_met: Callable[[Case], bool]) -> None:
        self.missing, self.is_met = missing, is_met

    STEPS = "no optimizer step was seen", lambda case: case.steps.count > 0
    STACKS = "no call stacks were sampled", lambda case: bool(case.stacks)
    LOADER = "no loader was seen", lambda case: bool(case.loaders)
    CODE = "the script's source was not readable", lambda case: bool(case.sources)
    CONFIG = "the script opened no configuration file", lambda case: bool(case.configs)
    BATCHES = "no batch was looked at", lambda case: bool(case.batches)
    MODEL = "no model was called", lambda case: bool(case.models)
    OPTIMIZER = "no optimizer was built", lambda case: bool(case.optimizers)
    SAVES = "nothing was saved while it was observed", lambda case: bool(case.saves)
    EVALUATIONS = "no evaluation was reached", lambda case: bool(case.evaluations)
    GPU = "needs a CUDA GPU", lambda case: case.on_gpu
    READINGS = (
        "needs readings of the GPU (nvidia-ml-py)",
        lambda case: bool(case.readings.get("gpu_utilisation")),
    )
    PROFILE = "needs --profile", lambda case: case.profiled
    CEILINGS = "needs --ceilings", lambda case: bool(case.ceilings)
    RANKS = "needs more than one process", lambda case: case.process.world > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the doctor; the docstring of its file is its page in the docs."""

    # Filled in by rules/__init__.py: the name and the docstring of the rule's file say them.
    id: str = ""  # "D13"
    name: str = ""  # "tokenize_hot"
    page: str = ""
    title: str
    # Judges an observed run that meets `needs`; None: the rule judges planned runs only. Several
    # findings of one rule have separate causes.
    judge: Callable[[Case], Finding | Iterable[Finding] | None] | None = None
    needs: tuple[Needs, ...] = ()
    # Judges a planned run; None: the rule judges observed runs only.
    before_run: Callable[[Case, PlannedRun], Finding | Iterable[Finding] | None] | None = None
    # The umbrella rule whose cause this rule names: if both fire, they are merged into one finding,
    # led by the rule with the higher `weight`. Example: "D1" for causes of the wait for data.
    under: str | None = None
    # Rules that each name a cause of this finding: it becomes evidence of the largest of theirs.
    yields_to: tuple[str, ...] = ()
    # -1 summary, 0 umbrella, 1 names a setting, 2 names the cause, 3 names the line.
    weight: int = 1
    numerics: Literal["bitwise", "rounding", "training"] | None = None  # of its remedy
    # "not worth it": the change would not pay; such findings are listed apart and never merged.
    kind: Kind = "speed"
    # How its findings are known, where they do not say otherwise. "read" is always a note.
    known: Known = "measured"
    # What takes its cost away: a row of the ledger or the name of an experiment
    # (diagnosis/chosen_experiments.py). "line": its first place is left out; "dead line": only if
    # nothing needs it. None: as its umbrella.
    experiment: str | None = None
    # Its cost is time of the host in the loop: at most the GPU's idle time (rules/gpu_idle.py).
    # False for evaluations, saves, logs and the start, work of the GPU, and copies over the bus.
    by_host: bool = False
    # Its cost is above an unknown need: without an experiment it is a note (not yet on a GPU).
    only_measured: bool = False

    @property
    def label(self) -> str:
        """The id and the name, as in `Finding.rule`."""
        return f"{self.id} {self.name}"

    def findings(self, case: Case) -> list[Finding]:
        """Judge a case that meets the needs, and fill in what the findings take from the rule.

        What was only read, not measured or proved, becomes a note.
        """
        result: Finding | Iterable[Finding] | None = None
        if case.planned is None:
            result = self.judge and self.judge(case)
        elif self.before_run is not None:
            result = self.before_run(case, case.planned)
        findings = [result] if isinstance(result, Finding) else result or ()
        return [self._filled_in(finding) for finding in findings]

    def _filled_in(self, finding: Finding) -> Finding:
        known = finding.known or self.known
        return replace(
            finding,
            rule=self.label,
            kind=finding.kind or self.kind,
            known=known,
            severity="note" if known == "read" else finding.severity,
        )


def unmet(case: Case, needs: tuple[Needs, ...]) -> Needs | None:
    """Return the first need that keeps a rule from judging the case, or None.

    Needs concern observed runs only: a planned run has no unmet needs.
    """
    if case.planned is not None:
        return None
    return next((need for need in needs if not need.is_met(case)), None)


def code_edit(text: str) -> Remedy:
    """Return a remedy that edits the code."""
    return Remedy(text=text, effort="code edit")


def option(text: str, *, technique: str | None = None, choice: str = "") -> Remedy:
    """Return a remedy that takes an option or a command, and no edit."""
    return Remedy(text=text, effort="option", technique=technique, choice=choice)
