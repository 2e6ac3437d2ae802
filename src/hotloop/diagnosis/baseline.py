"""Reads the baselines of a comparison, and says in what they are unlike the present run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.core.errors import UsageError
from hotloop.core.storage.files import read_json
from hotloop.diagnosis.recorded_run import RecordedRun, recorded
from hotloop.diagnosis.script import findings_json, judge_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotloop.diagnosis.recorded_run import RunFacts

__all__ = ["Unlike", "read_baseline", "read_baselines", "reasons", "unlike"]

TIMES: Final = "times"
MEMORY: Final = "memory"
WAITS: Final = "waits"
NEW: Final = "new findings"
_OWN: Final = "hotloop"  # its version changes its rules, not the script's times
_HOLDS: Final = {TIMES: "times", MEMORY: "the memory", WAITS: "waits a step", NEW: "findings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """One thing in which a baseline is unlike the present run."""

    what: str
    before: str
    now: str
    spoils: tuple[str, ...]  # TIMES, MEMORY, WAITS, NEW: what cannot be compared because of it
    baseline: str

    @property
    def said(self) -> str:
        """Return it as a sentence without its full stop, with what still holds."""
        lost = " and ".join(_HOLDS[name] for name in self.spoils)
        kept = " and ".join(words for name, words in _HOLDS.items() if name not in self.spoils)
        return (
            f"{self.what}: {self.before} in {self.baseline}, {self.now} now; {lost} cannot be "
            f"compared, {kept} can"
        )


def read_baseline(path: Path) -> RecordedRun:
    """Return the run in findings.json, or in a run folder, whose case is judged again.

    Raises UsageError if there is none, and DataError if it cannot be compared.
    """
    if path.is_dir():
        return recorded(findings_json(*judge_again(path)), name=str(path))
    if not path.exists():
        raise UsageError(
            f"--baseline {path}: there is no such file or folder; write it with: hotloop doctor "
            f"--json {path} train.py"
        )
    return recorded(read_json(path), name=str(path))


def read_baselines(paths: Sequence[Path]) -> list[RecordedRun]:
    """Return the runs in several files or folders.

    Raises what `read_baseline` raises, and UsageError for a run that is given twice: it would look
    as if runs did not differ.
    """
    runs = [read_baseline(path) for path in paths]
    for n, run in enumerate(runs):
        for other in runs[:n]:
            if run.step_time is not None and run.step_time == other.step_time:
                raise UsageError(
                    f"--baseline {other.name} and --baseline {run.name} are the same run: each "
                    "must be a run of its own, as their differences are measured"
                )
    return runs


def unlike(before: RecordedRun, now: RecordedRun) -> Iterator[Unlike]:
    """Yield what makes two runs incomparable, wholly or in part."""
    mine, theirs = (dict(_facts(run.facts)) for run in (now, before))
    for what in dict.fromkeys([*theirs, *mine]):
        old, spoils = theirs.get(what, ("unknown", (TIMES, MEMORY)))
        new, _ = mine.get(what, ("unknown", ()))
        if old != new:
            yield Unlike(what=what, before=old, now=new, spoils=spoils, baseline=before.name)


def _facts(facts: RunFacts) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Yield (what, (its value, what a difference spoils))."""
    run, hardware = (TIMES, MEMORY), facts.hardware
    yield "script", (facts.script, run)
    yield "script arguments", (" ".join(facts.arguments) or "none", run)
    yield "processes", (str(facts.world), run)
    yield "device", (hardware.device, (TIMES, MEMORY, WAITS))
    yield "hardware", (f"{hardware.count} x {hardware.name}", (TIMES,))
    yield "cores", ("unknown" if hardware.cores is None else f"{hardware.cores:g}", (TIMES,))
    yield "threads", ("unknown" if facts.threads is None else str(facts.threads), (TIMES,))
    for name, version in hardware.versions.items():
        yield name, (version, _of_version(name))


def _of_version(name: str) -> tuple[str, ...]:
    if name == _OWN:
        return (NEW,)
    return (TIMES,) if name == "platform" else (TIMES, MEMORY)


def reasons(differences: Sequence[Unlike], what: str) -> str | None:
    """Return why `what` cannot be compared, or None if it can."""
    names = dict.fromkeys(one.what for one in differences if what in one.spoils)
    return f"the runs differ in {', '.join(names)}" if names else None
