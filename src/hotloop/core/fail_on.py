"""Parses the conditions of --fail-on, under which a comparison with a baseline fails.

One condition is "step_time>+10%", "samples_per_s<-5%" or "new-findings>=warn"; spaces separate
several.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hotloop.core.errors import UsageError, did_you_mean
from hotloop.core.finding import Severity
from hotloop.core.two_runs import Change

__all__ = [
    "NEW_FINDINGS",
    "ConditionVerdict",
    "FailCondition",
    "Outcome",
    "Worse",
    "exit_code",
    "parse_conditions",
]

Outcome = Literal["REGRESSED", "held", "UNKNOWN"]
Worse = Literal["more", "less"]  # the direction in which a figure gets worse
NEW_FINDINGS = "new-findings"
_WORD = re.compile(r"([A-Za-z_-]+?)(>=|<=|>|<)([+-]?)(.+)")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailCondition:
    """One condition: a limit for a figure, or a severity for new findings."""

    text: str  # as typed
    name: str  # of the figure, or NEW_FINDINGS
    limit: float = 0.0  # the part of the baseline by which the figure may get worse
    worse: Worse = "more"
    level: Severity | None = None  # of NEW_FINDINGS

    @property
    def most(self) -> float:
        """Return the limit as a ratio of costs, now over before; a rate's cost is its inverse."""
        return 1 + self.limit if self.worse == "more" else 1 / (1 - self.limit)

    def outcome(self, change: Change) -> Outcome:
        """Judge the change of a cost.

        REGRESSED: it is beyond the limit, and its whole interval beyond half of the limit. held:
        the whole interval is within the limit.
        """
        if change.ratio is None or change.interval is None:
            return "UNKNOWN"
        low, high = change.interval
        if change.ratio > self.most and low > math.sqrt(self.most):
            return "REGRESSED"
        return "held" if high <= self.most else "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionVerdict:
    """Whether a condition of --fail-on is met, and why."""

    condition: str  # as typed
    outcome: Outcome
    why: str  # a sentence without its full stop


def exit_code(verdicts: Sequence[ConditionVerdict], *, fails_on_unknown: bool) -> int | None:
    """Return 1 if a condition is met, or undecided and that counts as well; else None."""
    bad = ("REGRESSED", "UNKNOWN") if fails_on_unknown else ("REGRESSED",)
    return 1 if any(verdict.outcome in bad for verdict in verdicts) else None


def parse_conditions(
    text: str, figures: Mapping[str, Worse], *, findings: bool = True
) -> list[FailCondition]:
    """Return the conditions of `text` on the known `figures`, and on new findings if allowed.

    Raises UsageError for anything else, with the names that are known.
    """
    known = [*figures, NEW_FINDINGS] if findings else [*figures]
    examples = " ".join([*(_example(name, figures) for name in known)])
    if not text.split():
        raise UsageError(f"--fail-on is empty: expected conditions such as {examples}")
    return [_condition(word, figures, known, examples) for word in text.split()]


def _example(name: str, figures: Mapping[str, Worse]) -> str:
    if name == NEW_FINDINGS:
        return f"{NEW_FINDINGS}>=warn"
    return f"{name}>+10%" if figures[name] == "more" else f"{name}<-10%"


def _condition(
    word: str, figures: Mapping[str, Worse], known: list[str], examples: str
) -> FailCondition:
    match = _WORD.fullmatch(word)
    if match is None:
        quote = "; put quotes around the conditions, or the shell takes > for a file"
        hint = quote if word in known else did_you_mean(word, known)
        raise UsageError(f"--fail-on {word!r}: expected a condition such as {examples}{hint}")
    name, bound, sign, number = match.groups()
    if name not in known:
        near = did_you_mean(name, known)
        raise UsageError(
            f"--fail-on {word!r}: no figure is called {name!r}{near} (there are: "
            f"{', '.join(known)})"
        )
    example = _example(name, figures)
    if name == NEW_FINDINGS:
        if bound != ">=" or sign or number not in get_args(Severity):
            levels = ", ".join(get_args(Severity))
            raise UsageError(f"--fail-on {word!r}: expected {example}, with one of {levels}")
        level: Severity = number  # type: ignore[assignment]
        return FailCondition(text=word, name=name, level=level)
    worse, percent = figures[name], _NUMBER.fullmatch(number)
    if percent is None or (bound, sign) != ((">", "+") if worse == "more" else ("<", "-")):
        raise UsageError(
            f"--fail-on {word!r}: {name} gets worse as it {'grows' if worse == 'more' else 'falls'}"
            f"; expected the change from the baseline in percent, as in {example}"
        )
    limit = float(percent[1]) / 100
    if worse == "less" and limit >= 1:
        raise UsageError(f"--fail-on {word!r}: no figure falls by {limit:.0%}; expected below 100%")
    return FailCondition(text=word, name=name, limit=limit, worse=worse)
