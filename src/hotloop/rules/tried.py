"""Puts the results of experiments into findings: a gain that was measured, or a refuted finding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.case.case import IN_STEP
from hotloop.core.finding import Finding, by_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotloop.core.case.case import Case
    from hotloop.core.case.experiment import Experiment
    from hotloop.core.finding import Remedy
    from hotloop.rules.base import Rule

__all__ = [
    "experiment_on",
    "in_words",
    "of_row",
    "of_technique",
    "share_of_run",
    "with_results",
]

_BETWEEN = ("evaluate", "save", "log")  # an experiment times whole steps, with what is between them
_MUCH, _LEAST = 2.0, 0.05  # of the share of a finding; of the run
_ALIKE = 1.05  # largest ratio of two gains of which one is told

# Experiments that make a remedy for a wait for data, and how its text is recognised.
_READINGS: Mapping[str, tuple[str, str]] = {  # the technique, and words of a remedy without one
    "whole batches": ("vectorised-reads", "__getitems__"),
    "batches by hand": ("", "torch.randperm"),
    "ready samples": ("sample-cache", "read once, np.save"),
    "worker process": ("loader-workers", "num_workers="),
    "no workers": ("", "num_workers=0"),
}
# Experiments that make a change, whose gain is the only evidence: the technique that makes it, and
# the rows of the wall time that it concerns.
_SWITCHES: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "fused optimizer": ("fused-adamw", ("optimizer",)),
    "tables": (None, ("optimizer",)),
    "threads": ("threads", IN_STEP),
    "kept memory": ("kept-memory", IN_STEP),
    "float32": (None, IN_STEP),
    "tf32": ("tf32", IN_STEP),
    "autocast": ("autocast-bf16", IN_STEP),
    "channels last": ("channels-last", IN_STEP),
    "attention": (None, IN_STEP),
    "contraction": (None, IN_STEP),
    "one product": (None, IN_STEP),
    "composed function": (None, IN_STEP),
    "looped operator": (None, IN_STEP),
    "recurrent cell": (None, IN_STEP),
    "sparse product": (None, IN_STEP),
    "split heads": (None, IN_STEP),
    "repeated rows": (None, IN_STEP),
    "kept calls": (None, IN_STEP),
    "joined calls": (None, IN_STEP),
    "converted lists": (None, (*IN_STEP, *_BETWEEN)),
    "drawn rows": (None, (*IN_STEP, *_BETWEEN)),
    "no distribution checks": (None, (*IN_STEP, *_BETWEEN)),
    "unused gradients": (None, ("forward", "backward")),
}
_OF_RULES: Mapping[str, str] = {
    "kept calls": "P3 ",
    "converted lists": "H26 ",
    "drawn rows": "H27 ",
}


def with_results(
    case: Case, findings: Iterable[Finding], rules: Mapping[str, Rule]
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings with what their experiments showed, and those that were refuted.

    `rules` has the rules by id.
    """
    kept: list[Finding] = []
    refuted: list[Finding] = []
    for finding in findings:
        rule = rules[finding.rule.partition(" ")[0]]
        experiment = experiment_on(case, finding, rules)
        finding = _with_readings(case, finding)
        if finding.is_correctness:
            kept.append(finding)
        elif experiment is None or experiment.outcome == "unknown":
            unsure = rule.only_measured and not case.by_hotloop
            unsure |= _was_tried_in_vain(case, rule)
            kept.append(replace(finding, severity="note") if unsure else finding)
        elif experiment.outcome == "no gain":
            refuted.append(replace(finding, severity="note", measured=in_words(case, experiment)))
        else:
            kept.append(_measured(case, finding, experiment))
    return kept, refuted


def _was_tried_in_vain(case: Case, rule: Rule) -> bool:
    """Whether the experiment of a rule, or each of several, was made and showed no gain.

    One that the script's end or the time limit prevented was not made.
    """
    of_rule = [one for one in case.experiments if rule.experiment == one.name]
    was_made = any(one.blocks or one.is_refused for one in of_rule)
    return was_made and all(one.outcome != "gain" for one in of_rule)


def experiment_on(case: Case, finding: Finding, rules: Mapping[str, Rule]) -> Experiment | None:
    """Return the experiment that took the cost of a finding away, if it has a gain.

    One of its rule comes first, then one on its lines, then that of the umbrella.
    """
    rule = rules[finding.rule.partition(" ")[0]]
    root = rule
    while root.under is not None and root.under in rules:
        root = rules[root.under]
    made = [one for one in case.experiments if one.gain is not None]
    own = [one for one in made if rule.experiment in (one.name, one.row) and rule.experiment]
    lines = [
        one
        for one in made
        if not set(one.places).isdisjoint(finding.places) and _is_of(one, finding, case)
    ]
    above = [one for one in made if root.experiment in (one.name, one.row) and root.experiment]
    if rule is not root and finding.share is None:  # the umbrella's experiment takes more away
        above = []
    first = next(iter([*own, *lines, *above]), None)
    if own and own[0].name in _SWITCHES:  # several choices of one change
        first = _best(own)
    if first is not None and first.name in ("ready batches", *_READINGS, *_SWITCHES):
        # Nobody can have batches that lie ready: a remedy that was tried tells more, and the best
        # of several most.
        tried = filter(None, (_reading(case, remedy) for remedy in finding.remedies))
        gains = [one for one in tried if one.outcome == "gain"]
        first = max(gains, key=lambda one: one.gain or 0.0, default=first)
    return first


def _reading(case: Case, remedy: Remedy) -> Experiment | None:
    """Return the experiment that tried one of several remedies, if it showed something."""
    for experiment in case.experiments:
        of_data, words = _READINGS.get(experiment.name, (None, ""))
        technique = _SWITCHES[experiment.name][0] if experiment.name in _SWITCHES else of_data
        if (technique and remedy.technique == technique) or (words and words in remedy.text):
            best = _best(one for one in case.experiments if one.name == experiment.name)
            return best if best is not None and best.outcome != "unknown" else None
    return None


def of_technique(case: Case, technique: str) -> Experiment | None:
    """Return the experiment that tried a technique, if one was made."""
    of_data = {name: known for name, (known, _) in _READINGS.items()}
    tried = {**{name: known for name, (known, _) in _SWITCHES.items()}, **of_data}
    return _best(one for one in case.experiments if tried.get(one.name) == technique)


def _best(experiments: Iterable[Experiment]) -> Experiment | None:
    """Return the experiment with the largest gain of several that tried one technique.

    If none has a gain, it is one that showed nothing, as another choice may still pay.
    """
    ranks = ("no gain", "unknown", "gain")
    made = [one for one in experiments if one.gain is not None]
    return max(made, key=lambda one: (ranks.index(one.outcome), one.gain or 0.0), default=None)


def _with_readings(case: Case, finding: Finding) -> Finding:
    """Return a finding whose remedies, where several were tried, say what trying them showed.

    Those that gain nothing here are left out; the best comes first.
    """
    remedies: list[tuple[float, Remedy]] = []
    for remedy in finding.remedies:
        experiment = _reading(case, remedy)
        if experiment is None:
            remedies.append((1.0, remedy))
        elif experiment.outcome == "gain":
            said = in_words(case, experiment)
            remedies.append((experiment.gain or 1.0, replace(remedy, tried=said)))
    ordered = sorted(remedies, key=lambda pair: -pair[0])
    return replace(finding, remedies=[remedy for _, remedy in ordered])


def _is_of(experiment: Experiment, finding: Finding, case: Case) -> bool:
    """Whether a line took away about what a finding explains: it may do other work as well."""
    if experiment.name in _OF_RULES:  # it takes away what this rule speaks of, and no other work
        return finding.rule.startswith(_OF_RULES[experiment.name])
    return finding.share is None or share_of_run(case, experiment) <= _MUCH * finding.share + _LEAST


def of_row(case: Case, row: str) -> Experiment | None:
    """Return the experiment that took a row of the ledger away; the one with a gain, if any.

    Of a wait for data it is a remedy that was tried, if one has a gain.
    """
    made = [experiment for experiment in case.experiments if experiment.row == row]
    if row == "waiting for data":
        named = [one for one in case.experiments if one.name in _READINGS]
        made = [one for one in named if one.outcome == "gain"] or made
    return max(made, key=lambda experiment: experiment.gain or 0.0, default=None)


def share_of_run(case: Case, experiment: Experiment) -> float:
    """Return the share of the judged time that a change takes away: its steps shrink."""
    return (experiment.share or 0.0) * min(1.0, case.share(*IN_STEP, *_BETWEEN))


def in_words(case: Case, experiment: Experiment) -> str:
    """Return "with batches that lie ready, a step is 2.8x as fast (measured: …, 12 steps)"."""
    if experiment.losses is not None:
        first, last = experiment.losses
        figures = f"the loss from {first:.4g} to {last:.4g}"
        return f"{experiment.what}, {experiment.steps} steps take {figures}"
    if experiment.gain is None or experiment.low is None or experiment.high is None:
        return f"not measured: {experiment.why_not}"
    if experiment.outcome == "unknown":
        low, high = map(_figure, (experiment.low, experiment.high))
        return f"not measured: blocks of steps differ too much ({low}-{high}x)"
    share = share_of_run(case, experiment)
    run = 1 / (1 - share) if share < 1 else experiment.gain
    is_another = not 1 / _ALIKE < run / experiment.gain < _ALIKE
    whole = f"; this run {_figure(run)}x" if is_another else ""
    span = f"measured: {_figure(experiment.low)}-{_figure(experiment.high)}"
    words = f"{experiment.what}, a step is {_figure(experiment.gain)}x as fast"
    how = "both forms timed between " if experiment.rewrites else ""
    return f"{words} ({span}, {how}{experiment.steps} steps){whole}"


def _figure(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else f"{factor:.0f}"


def _measured(case: Case, finding: Finding, experiment: Experiment) -> Finding:
    if experiment.gain is None:
        return finding
    share = share_of_run(case, experiment)
    if experiment.name in _SWITCHES:
        rows = _SWITCHES[experiment.name][1]
        # Its gain is the only evidence: what is certain counts, and no more than what it changes.
        share = min(share, 1 - 1 / experiment.sure, case.share(*rows))
        is_part = bool(experiment.rewrites) or experiment.name == "tables"
        if is_part and finding.share is not None:  # what these operators, or unread rows, took
            share = min(share, finding.share)
        return replace(
            finding,
            known="measured",
            share=share,
            severity="note" if finding.asked_for else by_share(share),
            ceiling=1 / (1 - share),
            measured=in_words(case, experiment),
        )
    if finding.share is not None:  # the finding may explain a part of it only
        share = min(share, finding.share)
    return replace(
        finding,
        known="proved" if experiment.proof else "measured",
        share=share,
        severity="note" if finding.asked_for else by_share(share),
        ceiling=1 / (1 - share) if share < 1 else None,
        measured=in_words(case, experiment),
    )
