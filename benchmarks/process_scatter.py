"""How far two processes of one plan lie apart, and what of that is memory that is given back.

    python -m benchmarks.process_scatter [--pairs N] [--turns SECONDS ...]

Pairs of forked trials of one script, ten rounds each, by turns: with memory that glibc gives back,
and with memory that is kept. The deviation of the centres from 1 has two parts, the noise of the
rounds of a pair and what lasts as long as the processes live. `--turns` are lengths of a turn to
compare instead, with memory kept. Result: benchmarks/results/process-scatter-cpu.json.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import RESULTS
from hotloop.core.plan import Plan
from hotloop.core.storage.files import read_json, write_json
from hotloop.core.trial import signed_rank_interval
from hotloop.machine.detect import detect
from hotloop.machine.threads import load, others
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.script_target import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRIPT = str(Path(__file__).with_name("trialscript.py"))
ROUNDS = 10


def apart(words: Sequence[str], pairs: int, *, keeps_memory: bool, turn: float) -> dict[str, Any]:
    """Return how far processes of a script lie apart; shares of a step."""
    centres, spreads, steps = list[float](), list[float](), list[float]()
    before = load(children=True)
    script = Script(command=(SCRIPT, *words), cwd=Path.cwd(), detect=lambda: detect("cpu"))
    with script.forking() as forking:
        entry = forking.entry(Plan(micro_batch=1), epochs=0, needs=())
        entry = replace(entry, keeps_memory=keeps_memory)
        for _ in range(pairs):
            one, two = race([entry, entry], RaceLength(rounds=ROUNDS, pairs=1, turn=turn))
            ratios = [math.log(two.rounds[n] / one.rounds[n]) for n in two.rounds]
            centres.append(signed_rank_interval(ratios)[1])
            spreads.append(statistics.stdev(ratios))
            steps.append(statistics.median(one.rounds.values()))
    return {
        "script": " ".join(("trialscript.py", *words)),
        "keeps_memory": keeps_memory,
        "turn": turn,
        "pairs": pairs,
        "centres": math.sqrt(statistics.fmean(centre**2 for centre in centres)),
        "rounds": statistics.median(spreads),
        "noise": statistics.median(spreads) / math.sqrt(ROUNDS),
        "step": statistics.median(steps),
        "others": others(before, load(children=True)),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--turns", type=float, nargs="*", default=())
    options = parser.parse_args(argv)
    path = RESULTS / "process-scatter-cpu.json"
    known = read_json(path) if path.exists() else {}
    result = {**known, "schema": 1, "hardware": detect("cpu").to_json()}
    usual = RaceLength().turn
    todo = [((), True, turn) for turn in options.turns] or [
        (words, keeps, usual) for words in ((), ("--images",)) for keeps in (False, True)
    ]
    rows = result["turns" if options.turns else "scatter"] = list[dict[str, Any]]()
    for words, keeps_memory, turn in todo:
        row = apart(words, options.pairs, keeps_memory=keeps_memory, turn=turn)
        rows.append(row)
        write_json(path, result)
        memory = "kept" if keeps_memory else "given back"
        print(
            f"{row['script']}, memory {memory}, turns of {turn} s: pairs {row['centres']:.1%} "
            f"apart, noise {row['noise']:.1%}, rounds {row['rounds']:.1%}, "
            f"step {1e3 * row['step']:.2f} ms, n {row['pairs']}, others {row['others']:.1f} cores",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
