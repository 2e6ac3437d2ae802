"""Golden cases of M4 straggler."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts


def ranks(wait: tuple[float, ...], forward: tuple[float, ...] = (0.006,) * 4) -> ProcessFacts:
    return ProcessFacts(world=4, ranks={"data wait": wait, "forward": forward})


def computing(factor: float, *, wait: float = 0.001, **changes: tuple[float, ...]) -> ProcessFacts:
    """Two ranks, the second `factor` times as slow in all that computes."""
    rows = {"forward": 0.003, "backward": 0.005, "optimizer": 0.002}
    slow = {row: (seconds, seconds * factor) for row, seconds in rows.items()}
    return ProcessFacts(world=2, ranks={**slow, "data wait": (0.001, wait), **changes})


POSITIVE = [
    healthy(process=ranks((0.001, 0.001, 0.004, 0.001))),
    healthy(process=computing(1.3)),
    healthy(process=computing(1.3, tokens=(100.0, 130.0))),
    healthy(process=computing(1.3, **{"after step": (0.001, 0.0012)})),
    healthy(process=replace(computing(1.3), hosts=("a", "b"))),
]
NEGATIVE = [
    healthy(process=ranks((0.001, 0.001, 0.0012, 0.001))),
    healthy(process=ranks((0.001, 0.001, 0.003, 0.001), (0.006, 0.006, 0.008, 0.006))),
    healthy(process=computing(1.05)),
    healthy(process=computing(1.2, wait=0.003)),  # as late for data as in computing
    healthy(process=ProcessFacts(world=4)),
]
