"""Golden cases of H12 cpu_starved."""

from dataclasses import replace

from tests.golden.cases import healthy, machine, on_gpu

from hotloop.core.case.environment import ProcessFacts

POSITIVE = [
    healthy(process=ProcessFacts(other_cores=1.4, involuntary_switches=300.0)),
    healthy(process=ProcessFacts(throttled=0.3)),
    on_gpu(process=ProcessFacts(other_cores=1.4)),
]
NEGATIVE = [healthy(process=ProcessFacts(other_cores=0.2, throttled=0.01))]

STARVED, THREADS = ProcessFacts(other_cores=1.4), ProcessFacts(other_cores=1.4, threads=8)
NAMED = [
    (healthy(process=STARVED), []),
    (healthy(process=replace(STARVED, threads=1)), []),
    (healthy(process=replace(STARVED, threads=2)), []),
    (healthy(process=THREADS), ["threads"]),
]

# Before a run.
POSITIVE += [
    machine(other_cores=1.5),
]
NEGATIVE += [
    machine(other_cores=0.4),
]
