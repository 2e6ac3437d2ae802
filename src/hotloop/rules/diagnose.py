"""Runs every rule over a case and merges what they say into one diagnosis."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from hotloop.core.finding import Diagnosis, Finding, Severity, ranked
from hotloop.rules import ALL
from hotloop.rules.base import Needs, Rule, unmet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Remedy
    from hotloop.core.measurement import Measurement

__all__ = ["diagnose"]

Judged = tuple[Rule, Finding]
Cause = tuple[str, bool, int]  # the umbrella, whether it is about correctness, the rule's n-th

# A script that has none of these has nothing there to check: not worth a sentence.
_ABSENT = {Needs.LOADER, Needs.CONFIG, Needs.RANKS, Needs.OPTIMIZER, Needs.PLANNED_RUN}
# These may come later in the script: worth a sentence when it was stopped before.
_LATER = {Needs.SAVES, Needs.EVALUATIONS}


def diagnose(case: Case, *, rules: Sequence[Rule] = ALL, strict: bool = False) -> Diagnosis:
    """Return what `rules` find in a case: one finding a cause, correctness first, then by seconds.

    A planned run is judged by the rules with `before_run`. A rule that raises does not lose the
    report: it is named among what was not checked. `strict` lets its exception through.
    """
    if case.planned is not None:
        rules = [rule for rule in rules if rule.before_run]
    judged: list[Judged] = []
    broken: list[str] = []
    for rule in rules:
        if unmet(case, rule.needs) or _is_beside_the_point(case, rule):
            continue
        try:
            judged += [(rule, finding) for finding in rule.findings(case)]
        except Exception as error:  # said in the report; a wrong rule must not cost all others
            if strict:
                raise
            broken.append(f"{rule.label} failed with {type(error).__name__}: please report it")
    aside = [finding for _, finding in judged if finding.kind == "not worth it"]
    return Diagnosis(
        findings=ranked(_merged(rules, [(r, f) for r, f in judged if f.kind != "not worth it"])),
        wall=case.wall,
        steps=case.steps.count,
        step_time=case.step_time,
        not_worth_it=ranked(aside),
        not_checked=[*broken, *_unchecked(case, rules), *case.not_checked],
        own_time=case.own_time,
        unstable=_unstable(case),
    )


def _is_beside_the_point(case: Case, rule: Rule) -> bool:
    """Whether a script raised before its first step, and the rule is about speed."""
    return case.raised is not None and not case.steps.count and rule.kind != "correctness"


def _unstable(case: Case) -> str | None:
    why = case.step_time and case.step_time.why_unstable()
    return f"the step time is not steady ({why}): take the figures as rough" if why else None


def _unchecked(case: Case, rules: Iterable[Rule]) -> list[str]:
    """Return a sentence for each reason, with the rules that could not judge because of it."""
    unable: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        reason = unmet(case, rule.needs)
        if reason is not None and _is_worth_saying(Needs(reason), case):
            unable[reason].append(rule.id)
    return [f"{reason}: {', '.join(ids)}" for reason, ids in unable.items()]


def _is_worth_saying(need: Needs, case: Case) -> bool:
    return need not in _ABSENT and (need not in _LATER or case.stopped is not None)


def _merged(rules: Iterable[Rule], judged: Iterable[Judged]) -> list[Finding]:
    """Return one finding for each cause: rules of one umbrella, speed and correctness apart.

    Several findings of one rule are of several causes.
    """
    under = {rule.id: rule.under for rule in rules}
    causes: dict[Cause, list[Judged]] = defaultdict(list)
    said = Counter[str]()
    for rule, finding in judged:
        root = rule.id
        while above := under.get(root):  # an umbrella may stand under another
            root = above
        causes[root, finding.is_correctness, said[rule.id]].append((rule, finding))
        said[rule.id] += 1
    _yield(causes)
    return [_one(members) for members in causes.values()]


def _yield(causes: dict[Cause, list[Judged]]) -> None:
    """Move a finding to the cause that explains at least half of its seconds, if one does."""
    for key in [key for key, members in causes.items() if members[0][0].yields_to]:
        (rule, finding), *_ = causes[key]
        named = [
            (other, max(found.share or 0.0 for _, found in causes[other]))
            for other in causes
            if other[0] in rule.yields_to
        ]
        other, share = max(named, key=lambda pair: pair[1], default=(key, 0.0))
        if other != key and share >= (finding.share or 0.0) / 2:
            causes[other] += causes.pop(key)


def _one(members: Sequence[Judged]) -> Finding:
    """Return the findings of one cause as one.

    The rule that comes nearest to the cause leads, if it explains at least half of the seconds of
    the largest; what it swallows stays as its evidence, lends its places and remedies, and keeps
    its severity. As the remedies are those of all, so is what they can save: "at most" is the most
    that one of them explains, the umbrella aside.
    """
    most = max(finding.share or 0.0 for _, finding in members)
    able = [member for member in members if (member[1].share or 0.0) >= most / 2]
    leader = max(able, key=lambda member: (member[0].weight, member[1].share or 0.0))
    rest = sorted(
        (member for member in members if member is not leader), key=lambda m: -m[0].weight
    )
    if not rest:
        return leader[1]
    ordered = [leader[1], *(finding for _, finding in rest)]
    said: dict[str, Measurement | str] = {}
    for finding in reversed(ordered):
        said |= finding.evidence
    remedies: dict[str, Remedy] = {}  # of those that name one technique the leader's
    for remedy in (remedy for finding in ordered for remedy in finding.remedies):
        remedies.setdefault(remedy.technique or remedy.text, remedy)
    return replace(
        _as_large_as(leader[1], [finding for rule, finding in members if rule.under]),
        severity=max((finding.severity for finding in ordered), key=get_args(Severity).index),
        places=list(dict.fromkeys(place for finding in ordered for place in finding.places)),
        evidence=said,
        because=[
            *leader[1].because,
            *(
                line
                for _, finding in rest
                for line in (f"{finding.rule}: {finding.claim}", *finding.because)
            ),
        ],
        remedies=list(remedies.values()),
    )


def _as_large_as(leading: Finding, others: Iterable[Finding]) -> Finding:
    """Return the leading finding with the seconds of the largest of its cause."""
    largest = max(others, key=lambda finding: finding.share or 0.0, default=leading)
    if leading.share is None or (largest.share or 0.0) <= leading.share:
        return leading
    return replace(
        leading,
        share=largest.share,
        saves=largest.saves,
        ceiling=largest.ceiling,
        part=leading.share,
    )
