"""Chooses the experiments for a script that was observed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from hotloop.core.case.case import IN_STEP
from hotloop.core.case.experiment import Experiment
from hotloop.core.finding import SourceLocation
from hotloop.core.units import many
from hotloop.diagnosis.resized_calls import OF_OPERATORS, resized_calls
from hotloop.rules import ALL
from hotloop.rules.device.g1_fp32_tc import full_float32
from hotloop.rules.device.g35_slow_format import slow_format
from hotloop.rules.parameters.p8_gradients_unused import idle_models
from hotloop.rules.support.page_faults import returned_memory
from hotloop.rules.support.slow_calls import distribution_checks, list_conversions, permuted_draws
from hotloop.techniques.threads import counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.ledger import Ledger, LedgerRow
    from hotloop.core.case.rewrite import Rewrite, RewriteKind
    from hotloop.core.case.steps_and_loaders import Frame
    from hotloop.core.finding import Finding

__all__ = ["chosen"]

_LEAST: Final = 0.03  # share of the wall time from which a row is worth an experiment
_PURE: Final = 0.80  # least share of a line's time that belongs to the row
_MUCH: Final = 2.0  # largest ratio of a line's time and the cost that it stands for
_REST: Final = 0.05  # largest share of the other rows' time that such a line may hold
_CORES: Final = 2  # from which a worker process is tried
_PART: Final = 0.05  # least share of a row that a line must hold; of a step, of another form
_MOST: Final = 8  # lines of one experiment
_WITHOUT: Final = {
    "waiting for data": "with batches that lie ready",
    "evaluating": "without the evaluation",
    "saving": "without saving",
    "logging": "without logging",
    "dead": "without what nothing needs",
    "repeated": "with the first result used again",
    "frozen": "with the frozen result kept",
}
_REWRITTEN: Final[Mapping[RewriteKind, str]] = {
    "attention": "with scaled_dot_product_attention",
    "contraction": "with a matrix product in place of the broadcast and the sum",
    "one product": "with the products of one input as one product",
    "composed function": "with {} in place of several operators",
    "looped operator": "with one call on all tensors in place of the loop's calls",
    "recurrent cell": "with one call on the whole sequence in place of one for each time step",
    "sparse product": "with a sparse matrix in place of one that is almost all zeros",
    "split heads": "with all heads of attention at once",
    "repeated rows": "with each row multiplied once, before it is copied",
}
_OF_DATA: Final = (
    *("ready batches", "whole batches", "batches by hand", "ready samples"),
    *("worker process", "no workers"),
)
_OF_LAYOUT: Final = 0.5  # of a pass, what another memory format or dtype may save
_LSTM: Final = "with nn.LSTM in place of the loop over time"
_SLOW_CALLS: Final = {
    "converted lists": ("with each list converted to one array first", list_conversions),
    "drawn rows": ("with rows drawn by numpy.random.default_rng()", permuted_draws),
}
_RULES: Final = {rule.id: rule for rule in ALL}


def chosen(case: Case, findings: Sequence[Finding] = ()) -> list[Experiment]:
    """Return the experiments that can show what a change of the script would gain, without results.

    Those that can gain most come first: where steps are slow, the time is not enough for all.
    """
    known = set[SourceLocation]()
    of_rows = _of_rows(case, known)
    rewritten = _rewritten(case)
    known.update(place for one in rewritten for rewrite in one.rewrites for place in rewrite.places)
    of_calls = _of_slow_calls(case)
    known.update(place for one in of_calls for place in one.places)
    of_findings = _of_findings(case, findings, known)
    others = [*_of_repeats(case), *_switches(case), *resized_calls(case), *_of_losses(findings)]
    every = [*of_rows, *_of_workers(case), *rewritten, *of_calls, *of_findings, *others]
    return sorted(every, key=lambda one: -_most(case, one))


def _most(case: Case, experiment: Experiment) -> float:
    """Return the share of the wall time that an experiment could take away at most."""
    if experiment.name == "channels last":
        return _OF_LAYOUT * _of_convolutions(case)
    if experiment.name in ("float32", "no anomaly detection"):
        return _OF_LAYOUT * (case.share("forward") + case.share("backward"))
    if experiment.name in ("tf32", "autocast", "unused gradients"):
        return case.share("forward") + case.share("backward")
    if experiment.name == "kept calls":
        return experiment.fraction * (case.share("forward") + case.share("backward"))
    if experiment.name in ("fused optimizer", "tables"):
        return case.share("optimizer")
    if experiment.name in _SLOW_CALLS:
        return case.part(sum(_SLOW_CALLS[experiment.name][1](case).values()))
    if experiment.rewrites and case.step_time is not None:
        part = sum(one.seconds for one in experiment.rewrites) / case.step_time.median
        return part * sum(map(case.share, IN_STEP))
    rows = case.ledger.rows if case.ledger is not None else ()
    name = "waiting for data" if experiment.name in _OF_DATA else experiment.row
    return max((case.part(row.excess) for row in rows if row.name == name), default=0.0)


def _of_convolutions(case: Case) -> float:
    """Return the largest share of the wall time that convolutions of the steps can take."""
    rows = case.ledger.rows if case.ledger is not None else ()
    lines = [line for row in rows if row.name in OF_OPERATORS for line in row.lines]
    if not lines:
        return case.share("forward") + case.share("backward")
    return case.part(sum(line.seconds for line in lines if "convolution" in line.what))


def _rewritten(case: Case) -> list[Experiment]:
    """Return the experiments on work of a step that can be written in another way."""
    if case.ledger is None or case.step_time is None:
        return []
    by_kind: dict[RewriteKind, list[Rewrite]] = defaultdict(list)
    for rewrite in case.ledger.rewrites:
        by_kind[rewrite.kind].append(rewrite)
    return [
        Experiment(
            name=kind,
            what=_in_words(rewrites),
            rewrites=tuple(rewrites),
        )
        for kind, rewrites in by_kind.items()
        if sum(one.seconds for one in rewrites) >= _PART * case.step_time.median
    ]


def _of_losses(findings: Sequence[Finding]) -> list[Experiment]:
    """Return the experiment on a loss that stands still: can one batch be learned?"""
    plateaus = (one for one in findings if one.severity != "critical")
    stands = any(finding.rule.startswith("S11 ") for finding in plateaus)
    return [Experiment(name="same batch", what="with one batch again and again")] * stands


def _of_workers(case: Case) -> list[Experiment]:
    """Return the experiment without worker processes, where the loop waits or shares its cores."""
    loaders = case.training_loaders
    if not loaders or not all(one.workers and not one.iterable for one in loaders):
        return []
    shares = sum(one.workers or 0 for one in loaders) >= (case.hardware.cores or 1)
    if not shares and case.share("data wait") < _LEAST:
        return []
    return [Experiment(name="no workers", what="with batches read by the loop itself")]


def _of_slow_calls(case: Case) -> list[Experiment]:
    """Return the experiments on calls of a library that have a faster form."""
    return [
        Experiment(name=name, what=what, places=tuple(lines)[:_MOST])
        for name, (what, found) in _SLOW_CALLS.items()
        if case.part(sum((lines := found(case)).values())) >= _LEAST
    ]


def _in_words(rewrites: Sequence[Rewrite]) -> str:
    """Return what an experiment changes that times the other form of this work."""
    first = rewrites[0]
    if first.kind == "one product" and first.form.startswith("lstm"):
        return _LSTM
    forms = {one.form for one in rewrites}  # those that turn out slower are left out
    return _REWRITTEN[first.kind].format(first.form if len(forms) == 1 else "torch's own functions")


def _of_rows(case: Case, known: set[SourceLocation]) -> list[Experiment]:
    """Return the experiments for the rows that can be avoided; add their lines to `known`."""
    experiments: list[Experiment] = []
    for row in case.ledger.avoidable if case.ledger is not None else ():
        if case.part(row.excess) < _LEAST or row.name not in _WITHOUT:
            continue
        what = _WITHOUT[row.name]
        if row.name == "waiting for data" and case.training_loaders:
            experiments.append(Experiment(name="ready batches", what=what, row=row.name))
            if all(loader.in_memory and not loader.workers for loader in case.training_loaders):
                what = "with each batch indexed from the tensors at once"
                experiments.append(Experiment(name="whole batches", what=what))
                what = "with each batch indexed from the tensors, without a DataLoader"
                experiments.append(Experiment(name="batches by hand", what=what))
            if all(
                not loader.workers and not loader.uses_random for loader in case.training_loaders
            ):
                what = "with samples that lie ready"
                experiments.append(Experiment(name="ready samples", what=what))
            if (case.hardware.cores or 1) >= _CORES and all(
                not loader.workers and not loader.iterable for loader in case.training_loaders
            ):
                what = "with a worker process that reads ahead"
                experiments.append(Experiment(name="worker process", what=what))
            continue
        assert case.ledger is not None
        # A result can be frozen, and its gradient dead: two changes of one line.
        is_open = row.name == "frozen"
        places = tuple(p for p in _lines(case.ledger, row) if is_open or p not in known)
        if places:
            known.update(places)
            experiments.append(Experiment(name="lines", what=what, row=row.name, places=places))
    return experiments


def _of_findings(
    case: Case, findings: Sequence[Finding], known: set[SourceLocation]
) -> list[Experiment]:
    """Return the experiments for the lines of findings; add the lines to `known`."""
    experiments = []
    for finding in findings:
        by = _RULES[finding.rule.partition(" ")[0]].experiment
        places = tuple(place for place in finding.places[:1] if _is_new(place, known, case))
        if (
            not places
            or by not in ("line", "dead line")
            or not _is_most_of(places[0], finding, case)
        ):
            continue
        known.update(places)
        is_dead = by == "dead line"
        row, what = ("dead", _WITHOUT["dead"]) if is_dead else (None, "without the line")
        experiments.append(Experiment(name="lines", what=what, row=row, places=places))
    return experiments


def _of_repeats(case: Case) -> list[Experiment]:
    """Return the experiment on modules that run several times on one input in a pass."""
    places: dict[SourceLocation, None] = {}
    share = 0.0
    for repeat in (repeat for model in case.models for repeat in model.repeats):
        if repeat.repeated and repeat.call_places and repeat.seconds:
            places.update(dict.fromkeys(repeat.call_places))
            share += repeat.seconds * repeat.repeated / repeat.calls / _pass_seconds(case)
    if share < _LEAST:
        return []
    what = "with the result of a module's first call taken for the others on the same input"
    return [
        Experiment(name="kept calls", what=what, places=tuple(places), fraction=min(1.0, share))
    ]


def _pass_seconds(case: Case) -> float:
    """Return the seconds of a forward pass."""
    passes = case.steps.count * (case.steps.backwards or 1.0)
    return max(case.row("forward") / max(1.0, passes), 1e-9)


def _is_most_of(place: SourceLocation, finding: Finding, case: Case) -> bool:
    """Whether a line does little more than what a finding explains, by the ledger."""
    if case.ledger is None or finding.share is None:
        return True
    seconds = _below(case.ledger.rows)[place]
    return case.part(seconds) <= _MUCH * finding.share + _PART


def _is_new(place: SourceLocation, known: set[SourceLocation], case: Case) -> bool:
    """Whether a line of the project is not tried yet, nor one on a call chain with it."""
    rows = case.ledger.rows if case.ledger is not None else ()
    chains = [{_place(frame) for frame in line.calls} for row in rows for line in row.lines]
    related = {place}.union(*(chain for chain in chains if place in chain))
    return place.line is not None and place.file in case.sources and not known & related


def _switches(case: Case) -> list[Experiment]:
    """Return the experiments that change how the same work is done."""
    experiments = []
    if case.share("optimizer") >= _PART:
        what = "with all tensors updated in one call"
        experiments.append(Experiment(name="fused optimizer", what=what))
        if any(model.tables for model in case.models):
            what = "with the tables left out of the update"
            experiments.append(Experiment(name="tables", what=what))
    if idle_models(case):
        what = "with requires_grad off for the models that no optimizer updates"
        experiments.append(Experiment(name="unused gradients", what=what))
    if any(one.convolutions and one.channels_last is False for one in case.models):
        what = "with images and weights in channels_last"
        experiments.append(Experiment(name="channels last", what=what))
    if full_float32(case):
        what = "with float32 products in TF32"
        experiments.append(Experiment(name="tf32", what=what))
        what = "with forward passes under autocast to bfloat16"
        experiments.append(Experiment(name="autocast", what=what))
    if any(slow_format(model, case) for model in case.models):
        what = "with weights and inputs in float32"
        experiments.append(Experiment(name="float32", what=what))
    if case.process.switches.get("anomaly_detection") == "True":
        what = "without anomaly detection"
        experiments.append(Experiment(name="no anomaly detection", what=what))
    if case.part(distribution_checks(case)) >= _LEAST:
        what = "with distributions that do not check their arguments"
        experiments.append(Experiment(name="no distribution checks", what=what))
    threads, cores = case.process.threads, math.floor(case.hardware.cores or 1)
    if not case.on_gpu and threads is not None and threads > cores:
        for count in reversed(counts(cores)):
            what = f"with {many(count, 'thread')}"
            experiments.append(Experiment(name="threads", what=what, count=count))
    if returned_memory(case) >= _LEAST and "kept-memory" not in case.techniques:
        what = "with freed memory kept by the process"
        experiments.append(Experiment(name="kept memory", what=what))
    if case.share("log") >= _LEAST:
        experiments.append(Experiment(name="no logging", what="without logging", row="logging"))
    return experiments


def _lines(ledger: Ledger, row: LedgerRow) -> list[SourceLocation]:
    """Return the lines that can be skipped to take a row away, the largest first.

    For each entry of the row it is the outermost line of the project that is spent on this row.
    """
    comparable: Sequence[LedgerRow] = ledger.rows
    if row.name in OF_OPERATORS:  # of an evaluation nobody knows what its operators are for
        comparable = [one for one in ledger.rows if one.name in (*OF_OPERATORS, "host")]
    whole: Mapping[SourceLocation, float] = _below(comparable)
    # Without a frozen or repeated result, what is dead of it is not computed either.
    with_it = (row.name, "dead") if row.name in ("frozen", "repeated") else (row.name,)
    of_row = _below([other for other in ledger.rows if other.name in with_it])
    others = sum(line.seconds for other in ledger.rows if other != row for line in other.lines)

    # Of the host's time, nobody knows which operators it was for.
    host = _below([other for other in ledger.rows if other.name == "host"])

    def is_pure(place: SourceLocation) -> bool:
        known = whole[place] - host[place]
        rest = known - of_row[place]
        is_most = of_row[place] >= _PURE * known and host[place] <= known
        return is_most and rest <= _REST * others

    seconds: dict[SourceLocation, float] = defaultdict(float)
    for line in row.lines:
        places = [_place(frame) for frame in line.calls if frame.own]
        pure = list(filter(is_pure, places))
        # Whether the result of a line is dead is proved later: outer and inner lines are tried.
        for place in dict.fromkeys(places) if row.name == "dead" else pure[-1:]:
            seconds[place] += line.seconds
    ordered = sorted(seconds, key=lambda place: -seconds[place])
    return [place for place in ordered if seconds[place] >= _PART * row.seconds][:_MOST]


def _below(rows: Sequence[LedgerRow]) -> dict[SourceLocation, float]:
    """Return the seconds of the rows below each line of the project."""
    seconds: dict[SourceLocation, float] = defaultdict(float)
    for row in rows:
        for line in row.lines:
            for place in {_place(frame) for frame in line.calls if frame.own}:
                seconds[place] += line.seconds
    return seconds


def _place(frame: Frame) -> SourceLocation:
    return SourceLocation(file=frame.file, line=frame.line)
