"""Defines the options that compare a run with a baseline, and decides the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.core.fail_on import NEW_FINDINGS, exit_code, parse_conditions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.fail_on import FailCondition
    from hotloop.core.finding import Diagnosis
    from hotloop.diagnosis.recorded_run import RecordedRun
    from hotloop.diagnosis.regressions import BaselineComparison

__all__ = [
    "BaselineGate",
    "add_baseline",
    "add_conditions",
    "gate_of",
    "refuse_baseline",
    "refuse_unknown_alone",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineGate:
    """The baselines, read before the script is run, and the conditions on which to fail."""

    baselines: Sequence[RecordedRun]
    conditions: Sequence[FailCondition]
    fails_on_unknown: bool

    def compared(self, case: Case, diagnosis: Diagnosis) -> BaselineComparison | None:
        """Return the comparison; None for a run that failed or was interrupted."""
        from hotloop.diagnosis.recorded_run import recorded
        from hotloop.diagnosis.regressions import compare_runs
        from hotloop.diagnosis.script import findings_json

        if case.raised is not None or case.stopped == "Ctrl-C":
            return None
        now = recorded(findings_json(case, diagnosis), name="this run")
        return compare_runs(self.baselines, now, self.conditions)

    def exit_code(self, result: BaselineComparison | None) -> int | None:
        """Return the exit code of a comparison; None: that of the run."""
        verdicts = () if result is None else result.conditions
        return exit_code(verdicts, fails_on_unknown=self.fails_on_unknown)


def add_baseline(parser: argparse.ArgumentParser, *, of: str = "") -> None:
    """Add --baseline, --fail-on and --fail-on-unknown; `of` begins their help."""
    parser.add_argument(
        "--baseline",
        type=Path,
        action="append",
        metavar="PATH",
        help=f"{of}compare with an earlier run: the file of its --json, or its run folder; given "
        "several times: with several runs of it, which tell how far such runs differ",
    )
    add_conditions(
        parser,
        f'{of}exit 1 if a figure got worse: "step_time>+10%% new-findings>=warn"; others: '
        "samples_per_s<-10%%, tokens_per_s<-10%%, start>+25%%, peak_memory>+30%%, "
        "waits_per_step>+0%%",
        of=of,
    )


def add_conditions(parser: argparse.ArgumentParser, help: str, *, of: str = "") -> None:
    """Add --fail-on, with its `help`, and --fail-on-unknown; `of` begins the latter's help."""
    add = parser.add_argument
    add("--fail-on", metavar="CONDITIONS", help=help)
    add(
        "--fail-on-unknown",
        action="store_true",
        help=f"{of}exit 1 as well if the noise of the runs, or a difference between them, leaves "
        "a condition undecided",
    )


def refuse_unknown_alone(options: argparse.Namespace, example: str) -> None:
    """Raise UsageError for --fail-on-unknown without conditions."""
    if options.fail_on_unknown and options.fail_on is None:
        raise UsageError(f'--fail-on-unknown needs conditions: --fail-on "{example}"')


def gate_of(options: argparse.Namespace) -> BaselineGate | None:
    """Return the requested comparison, or None.

    Raises UsageError for conditions that cannot be read or a missing baseline, and DataError for a
    file that is no baseline.
    """
    refuse_unknown_alone(options, "step_time>+10%")
    if options.fail_on is None and options.baseline is None:
        return None
    from hotloop.diagnosis.baseline import read_baselines
    from hotloop.diagnosis.changed_figures import FIGURES

    conditions = [] if options.fail_on is None else parse_conditions(options.fail_on, FIGURES)
    if getattr(options, "no_rules", False) and any(one.level for one in conditions):
        raise UsageError(f"--no-rules leaves out the findings: leave out {NEW_FINDINGS} as well")
    if options.baseline is None:
        raise UsageError("--fail-on needs the run to compare with: --baseline findings.json")
    return BaselineGate(
        baselines=read_baselines(options.baseline),
        conditions=conditions,
        fails_on_unknown=options.fail_on_unknown,
    )


def refuse_baseline(options: argparse.Namespace) -> None:
    """Raise UsageError if one of the options was given without a script or its run folder."""
    for name in ("baseline", "fail_on", "fail_on_unknown"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for a script or the run folder of one")
