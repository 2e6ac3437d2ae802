"""A tiny char-lm, assembled, and a ladder that was climbed without a process."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotloop.bench.matmul_ceiling import Ceilings
from hotloop.bench.result import Result
from hotloop.bench.run_ladder import Climb
from hotloop.core.agreement import Evidence
from hotloop.core.measurement import Measurement
from hotloop.core.trial import FEWEST, Trial
from hotloop.jobs import train
from hotloop.jobs.job import PreparedRun, assemble
from hotloop.jobs.request import fresh_request
from hotloop.recipes.char_lm.ladder import LADDER
from hotloop.tuning.lane import RaceLength

FAST = {"own": 0.02, "sdpa": 0.05}  # seconds of a step by rung; the others take as long as before
SLOW = 0.1
SAID = {
    "start": 3.0,
    "compile": 0.0,
    "data_wait": 0.001,
    "aside": {"validation": (0.01, 0.01), "save": 0.02},
}


class Told:
    """What a trial would say of itself."""

    busy_cores, peak_bytes, gpu, message = 1.0, 300 << 20, {}, SAID

    def __init__(self, command, **how):
        self.command = command(7)


@pytest.fixture(scope="session")
def parts(tiny) -> PreparedRun:
    settings = [s for s in tiny if not s.startswith("model.dropout")] + ["model.dropout=0"]
    request = fresh_request("char-lm", settings)
    made = assemble(request, train.silent, lambda: None)
    # Some CPUs have bf16, and more rungs for it: here none has.
    return replace(made, hardware=replace(made.hardware, cpu_features=frozenset(("avx2",))))


class Races:
    """Runs no trial: each makes rounds of a step time by its rung."""

    def __init__(self, times=FAST, *, after=None, **ends):
        self.times, self.ends, self.after = times, ends, after
        self.names: list[str] = []

    def __call__(self, entries, pace, *, notify):
        for entry in entries:
            entry.start()
        notify("round 1 of 6")
        return [self.trial(entries[0].plan, SLOW), self.tried(entries[1])]

    def tried(self, entry) -> Trial:
        name = next(self.order)
        self.names.append(name)
        if name == self.after:
            raise KeyboardInterrupt
        made = self.trial(entry.plan, self.times.get(name, SLOW))
        if name in self.ends:
            return replace(made, outcome=self.ends[name], reason="it was planted", rounds={})
        return made

    def trial(self, plan, seconds: float) -> Trial:
        evidence = Evidence(losses=(2.0,), norms=(1.0,), tensors={"0.0": 1.0}, samples={"0.0": [1]})
        rounds = dict.fromkeys(range(FEWEST), seconds)
        return Trial(plan=plan, rounds=rounds, steps=60, peak_bytes=300 << 20, evidence=evidence)


def ceilings(parts: PreparedRun, rate: float = 1e12) -> Ceilings:
    def measure(device, dtype):
        return Measurement(unit="FLOP/s", readings=(rate,))

    return Ceilings(parts.hardware, measure=measure)


def climbed(
    parts: PreparedRun, folder: Path, *, only=(), races=None, rate=1e12, ladder=LADDER, **how
) -> Result:
    races = races or Races()
    how = {"listen": Told, **how}
    made = Climb(
        ladder,
        parts,
        pace=RaceLength(),
        folder=folder,
        command=["hotloop", "bench"],
        ceilings=ceilings(parts, rate),
        racer=races,
        **how,
    )
    names = [r.id for r in ladder.rungs if not only or r.id in only or r is ladder.rungs[0]]
    races.order = iter([id for id in names if id not in ("low", "graphs")])  # not on a CPU
    return made.climb(only, epochs=False)


@pytest.fixture
def result(parts, tmp_path) -> Result:
    return climbed(parts, tmp_path, only=("engine", "sdpa", "low", "own"))
