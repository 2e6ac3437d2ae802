"""Run all rules over a case and merge their findings into one diagnosis."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from hotloop.core.finding import Diagnosis, Finding, Severity, ranked
from hotloop.rules import ALL
from hotloop.rules.base import Needs, Rule, unmet
from hotloop.rules.gpu_idle import bounded
from hotloop.rules.library_settings import in_library
from hotloop.rules.tried import with_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Kind, Remedy
    from hotloop.core.measurement import Measurement

__all__ = ["diagnose"]

Judged = tuple[Rule, Finding]
Cause = tuple[str, bool, int]  # umbrella, whether it concerns correctness, number within the rule

_APART: tuple[Kind, ...] = ("not worth it", "machine")  # listed apart, never merged
# Needs that are not reported as unmet: such a script has nothing there to check.
_ABSENT = {Needs.LOADER, Needs.CONFIG, Needs.RANKS, Needs.OPTIMIZER}
# Needs that are reported only if the script was stopped early, as they may be met later.
_LATER = {Needs.SAVES, Needs.EVALUATIONS}


def diagnose(case: Case, *, rules: Sequence[Rule] = ALL, strict: bool = False) -> Diagnosis:
    """Return the diagnosis of a case: one finding per cause, proved faults first, then by seconds.

    A planned run is judged by the rules with `before_run`. A rule that raises is listed in
    `not_checked`; with `strict`, its exception propagates.
    """
    rules = [rule for rule in rules if (rule.judge if case.planned is None else rule.before_run)]
    judged: list[Judged] = []
    broken: list[str] = []
    for rule in rules:
        if unmet(case, rule.needs) or _is_beside_the_point(case, rule):
            continue
        try:
            judged += [(rule, bounded(case, rule, one)) for one in rule.findings(case)]
        except Exception as error:  # listed in the report; one faulty rule must not lose the others
            if strict:
                raise
            broken.append(f"{rule.label} failed with {type(error).__name__}: please report it")
    merged = _merged(rules, [(r, f) for r, f in judged if f.kind not in _APART])
    findings, refuted = with_results(case, merged, {rule.id: rule for rule in rules})
    findings = in_library(case, findings)
    apart = {kind: [f for _, f in judged if f.kind == kind] for kind in _APART}
    return Diagnosis(
        findings=ranked(findings),
        wall=case.wall,
        steps=case.steps.count,
        step_time=case.step_time,
        not_worth_it=ranked(apart["not worth it"]),
        refuted=ranked(refuted),
        machine=ranked(apart["machine"]),
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
    """Return one sentence per unmet need, with the ids of the rules that have it."""
    unable: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        need = unmet(case, rule.needs)
        if need is not None and _is_worth_saying(need, case):
            unable[need.missing].append(rule.id)
    return [f"{reason}: {', '.join(ids)}" for reason, ids in unable.items()]


def _is_worth_saying(need: Needs, case: Case) -> bool:
    return need not in _ABSENT and (need not in _LATER or case.stopped is not None)


def _merged(rules: Iterable[Rule], judged: Iterable[Judged]) -> list[Finding]:
    """Return one finding per cause: merge rules of one umbrella, speed and correctness apart.

    Several findings of one rule have separate causes.
    """
    under = {rule.id: rule.under for rule in rules}
    causes: dict[Cause, list[Judged]] = defaultdict(list)
    counts = Counter[str]()
    for rule, finding in judged:
        root = rule.id
        while parent := under.get(root):  # an umbrella may itself have an umbrella
            root = parent
        causes[root, finding.is_correctness, counts[rule.id]].append((rule, finding))
        counts[rule.id] += 1
    _yield(causes)
    return [_merge_cause(members) for members in causes.values()]


def _yield(causes: dict[Cause, list[Judged]]) -> None:
    """Move a finding to the cause that explains at least half of its seconds, if one does."""
    for key in [key for key, members in causes.items() if members[0][0].yields_to]:
        (rule, finding), *_ = causes[key]
        candidates = [
            (other, max(member.share or 0.0 for _, member in causes[other]))
            for other in causes
            if other[0] in rule.yields_to
        ]
        other, share = max(candidates, key=lambda pair: pair[1], default=(key, 0.0))
        if other != key and share >= (finding.share or 0.0) / 2:
            causes[other] += causes.pop(key)


def _merge_cause(members: Sequence[Judged]) -> Finding:
    """Merge the findings of one cause into one.

    The rule nearest to the cause leads, if it explains at least half of the largest share and was
    not only read, where others were measured or proved. The others become its evidence and
    contribute their places and remedies; the highest severity wins. As the remedies are those of
    all findings, the possible saving is the largest share that any of them explains, except the
    umbrella.
    """
    sure = [member for member in members if member[1].known != "read"] or members
    most = max(finding.share or 0.0 for _, finding in sure)
    candidates = [member for member in sure if (member[1].share or 0.0) >= most / 2]
    leader = max(candidates, key=lambda member: (member[0].weight, member[1].share or 0.0))
    others = sorted(
        (member for member in members if member is not leader), key=lambda m: -m[0].weight
    )
    if not others:
        return leader[1]
    ordered = [leader[1], *(finding for _, finding in others)]
    evidence: dict[str, Measurement | str] = {}
    for finding in reversed(ordered):
        evidence |= finding.evidence
    remedies: dict[str, Remedy] = {}  # if several name one technique, the leader's
    for remedy in (remedy for finding in ordered for remedy in finding.remedies):
        remedies.setdefault(remedy.technique or remedy.text, remedy)
    return replace(
        _as_large_as(leader[1], [finding for rule, finding in members if rule.under]),
        severity=max((finding.severity for finding in ordered), key=get_args(Severity).index),
        places=list(dict.fromkeys(place for finding in ordered for place in finding.places)),
        evidence=evidence,
        because=[
            *leader[1].because,
            *(
                line
                for _, finding in others
                for line in (f"{finding.rule}: {finding.claim}", *finding.because)
            ),
        ],
        remedies=list(remedies.values()),
    )


def _as_large_as(leading: Finding, others: Iterable[Finding]) -> Finding:
    """Return the leading finding with the share of the largest finding of its cause."""
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
