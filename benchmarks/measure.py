"""Measures rows by turns, compares them pair by pair, and says what a goal makes of it.

A busy machine is refused, or with --busy marked: absolute times drift, ratios of one run count.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import platform
import resource
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import psutil

from benchmarks.table import RESULTS, lines, quartiles
from benchmarks.turns import NotRun, Reading
from hotloop.core.measurement import Measurement
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect
from hotloop.machine.matmul_rate import measure_gemm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = [
    "Bench",
    "Goal",
    "Load",
    "interleave",
    "interval",
    "judge",
    "options",
]

PEERS = Path(__file__).parent / "peers.txt"
FEWEST = 20  # pairs below which no goal is judged
BUSY = 0.15  # cores that other processes may use
WATCH_S = 1.0  # for how long the load is watched before the first reading

Readings = dict[str, dict[str, list[float]]]  # row -> quantity -> a value a round


def options(
    argv: Sequence[str] | None, about: str, *, rounds: int = FEWEST + 2, **paths: Path
) -> argparse.Namespace:
    """Return the options that every benchmark has, and the paths of this one with defaults."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=rounds, help="readings of each row (default %(default)s)")
    add("--only", action="append", default=[], metavar="TEXT", help="rows whose name has TEXT")
    add("--busy", action="store_true", help="go on, and mark the result, on a busy machine")
    add("--quick", action="store_true", help="2 rounds, tiny sizes, no peers: does it run?")
    add("--out", type=Path, metavar="FOLDER", help=f"where the JSON goes (default {RESULTS.name}/)")
    for name, default in paths.items():
        add(f"--{name}", type=Path, default=default, help="default %(default)s")
    chosen = parser.parse_args(argv)
    if chosen.quick:
        chosen.rounds = 2
    return chosen


def interleave(
    rows: Mapping[str, Callable[[], Reading]], *, rounds: int, warm: int = 2
) -> Readings:
    """Take a reading of every row in each round, in an order that turns by one from round to round.

    The first `warm` rounds are thrown away.
    """
    names = list(rows)
    readings: Readings = {name: {} for name in names}
    for number in range(-warm, rounds):
        turn = number % max(1, len(names))
        for name in (*names[turn:], *names[:turn]):
            for quantity, value in rows[name]().items():
                if number >= 0:
                    readings[name].setdefault(quantity, []).append(value)
    return readings


class Load:
    """How many cores other processes have used since it was made."""

    def __init__(self) -> None:
        self._wall, self._all, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    @property
    def seconds(self) -> float:
        """How long it has been watching."""
        return time.perf_counter() - self._wall

    def others(self) -> float:
        """Return that number, 0 or more; time stolen by other virtual machines counts."""
        wall = self.seconds
        used = _busy_seconds() - self._all - (_own_seconds() - self._own)
        return max(0.0, used / max(wall, 1e-9))

    @classmethod
    def watched(cls, seconds: float = WATCH_S) -> float:
        """Do nothing for a while and return the cores that others used."""
        load = cls()
        time.sleep(seconds)
        return load.others()


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own_seconds() -> float:
    """Return the CPU time of this process and of all its children, those that live included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(one.ru_utime + one.ru_stime for one in used)
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:  # it has just ended: its parent's account has it
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def interval(values: Sequence[float], *, draws: int = 4_000) -> tuple[float, float, float]:
    """Return the median in the middle of its 95 % interval, by the bootstrap with a fixed seed.

    Source: Efron, Bootstrap methods: another look at the jackknife, 1979 (percentile interval).
    """
    random = Random(0)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(draws))
    return medians[draws // 40], statistics.median(values), medians[draws - 1 - draws // 40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a row must reach, against another row of the same rounds or as it is."""

    text: str
    row: str
    quantity: str
    against: str | None = None  # None: the value itself is judged
    relation: Literal["ratio", "difference"] = "ratio"
    bound: Literal["at most", "at least"] = "at most"
    limit: float
    judged: Literal["quartiles", "interval"] = "quartiles"  # by the spread, or by the median's own

    def values(self, readings: Readings) -> list[float]:
        """Return what is judged, one value a round."""
        mine = readings[self.row][self.quantity]
        if self.against is None:
            return mine
        pairs = list(zip(mine, readings[self.against][self.quantity], strict=True))
        return [a / b if self.relation == "ratio" else a - b for a, b in pairs]


def judge(goal: Goal, readings: Readings) -> dict[str, Any]:
    """Return the goal with its value and verdict: REACHED, MISSED by, UNKNOWN or not measured.

    REACHED takes the worse quartile within the limit, MISSED the better one outside it; quartiles
    on both sides of the limit are UNKNOWN, not a pass, and so are few pairs. A goal may ask for the
    ends of the median's 95 % interval in their place.
    """
    about: dict[str, Any] = {**asdict(goal), "n": 0}
    gone = [name for name in (goal.row, goal.against) if name and name not in readings]
    if gone:
        return {**about, "verdict": f"not measured: {' and '.join(gone)} not run"}
    values = goal.values(readings)
    spread, ends = (
        (interval, "interval is") if goal.judged == "interval" else (quartiles, "quartiles are")
    )
    low, middle, high = spread(values)
    over = goal.bound == "at most"
    best, worst = (low, high) if over else (high, low)
    fails = [value > goal.limit if over else value < goal.limit for value in (best, worst)]
    if len(values) < FEWEST:
        verdict = f"UNKNOWN: {len(values)} pairs, at least {FEWEST} are needed"
    elif fails[0]:
        verdict = f"MISSED by {abs(middle / goal.limit - 1):.0%}"
    else:
        verdict = f"UNKNOWN: the {ends} on both sides" if fails[1] else "REACHED"
    return {**about, "n": len(values), "value": [low, middle, high], "verdict": verdict}


def machine_floors() -> dict[str, float]:
    """Return what this machine can do right now, with the threads that torch has."""
    import torch

    source = torch.ones(1 << 26)  # 256 MiB
    target, seconds = torch.empty_like(source), []
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        seconds.append(time.perf_counter() - began)
    return {
        "fp32 GEMM GFLOP/s": measure_gemm("cpu", "fp32").median / 1e9,
        "copy GB/s (read and written)": 2 * source.nbytes / min(seconds) / 1e9,
    }


def versions() -> dict[str, str]:
    """Return the versions of what peers.txt names, as far as it is installed."""
    found = {"python": platform.python_version()}
    for line in PEERS.read_text().splitlines():
        name = line.partition("==")[0].strip()
        if name and not name.startswith("#"):
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
    return found


@dataclass(slots=True, kw_only=True)
class Bench:
    """One benchmark: what it measured and what it makes of it."""

    name: str  # of its module and of its JSON file
    title: str
    options: argparse.Namespace
    base: str  # the row that others are shown as a multiple of
    quantities: Sequence[str]  # with their units; the first is compared
    peers: Collection[str] = ()  # rows that --quick leaves out
    absent: dict[str, str] = field(default_factory=dict)  # row -> why it is not run
    notes: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    before: float = 0.0  # cores that others used before the first reading
    load: Load | None = None
    floors: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Refuse a busy machine, unless it was asked for; from here on the load is counted."""
        quick = self.options.quick
        self.before = Load.watched(0.0 if quick else WATCH_S)
        if self.before > BUSY and not (self.options.busy or quick):
            sys.exit(
                f"other processes use {self.before:.2f} cores: nothing is judged on a busy "
                "machine; end them, or go on with --busy and a result that is marked"
            )
        if not quick:
            self.floors = machine_floors()
        self.load = Load()

    def wanted(self, name: str) -> bool:
        """Whether a row was asked for."""
        only = self.options.only
        return not only or any(text in name for text in only)

    def gather(self, makers: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Make the rows that were asked for; one whose package is missing is noted as not run."""
        made = {}
        for name in filter(self.wanted, makers):
            if self.options.quick and name in self.peers:
                self.absent[name] = "left out by --quick"
                continue
            try:
                made[name] = makers[name]()
            except (ImportError, NotRun) as error:
                self.absent[name] = str(error)
        return made

    def conclude(self, readings: Readings) -> None:
        """Print the table and the verdicts, and write both as JSON."""
        import torch

        assert self.load is not None
        others = self.load.others()
        busy = max(self.before, others) > BUSY
        verdicts = [judge(goal, readings) for goal in self.goals]
        if busy and not self.options.busy:
            for verdict in (one for one in verdicts if one["n"]):
                verdict["verdict"] = f"UNKNOWN: others used {others:.2f} cores meanwhile"
        result: dict[str, Any] = {
            "schema": 1,
            "benchmark": self.name,
            "title": self.title,
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "took_s": round(self.load.seconds, 1),
            "busy": busy,
            "others_cores": {"before": round(self.before, 3), "during": round(others, 3)},
            "hardware": detect("cpu").to_json(),
            "threads": torch.get_num_threads(),
            "floors": self.floors,
            "versions": versions(),
            "base": self.base,
            "quantities": list(self.quantities),
            "rows": {
                name: {
                    quantity: Measurement(unit=quantity, readings=tuple(values)).to_json()
                    for quantity, values in row.items()
                }
                for name, row in readings.items()
            },
            "absent": self.absent,
            "goals": verdicts,
            "notes": self.notes,
        }
        print("\n".join(lines(result)), flush=True)
        folder = self.options.out or (None if self.options.quick else RESULTS)
        if folder is not None:
            make_folder(folder)
            write_json(folder / f"{self.name}.json", result)
