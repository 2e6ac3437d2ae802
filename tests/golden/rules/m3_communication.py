"""Golden cases of M3 communication."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts


def ranks(seconds: float, other: float | None = None) -> ProcessFacts:
    return ProcessFacts(
        world=2,
        backend="gloo",
        ranks={"communication": (seconds, other or seconds), "step": (0.010, 0.010)},
    )


POSITIVE = [healthy(process=ranks(0.003)), healthy(process=ranks(0.0015))]
NEGATIVE = [
    healthy(process=ranks(0.0005)),
    healthy(process=ranks(0.0005, 0.004)),  # which waits for the other
    healthy(process=ProcessFacts(world=2, ranks={"step": (0.01, 0.01)})),
    healthy(process=replace(ranks(0.003), world=3, ranked=(0, 2))),  # 1 may be waited for
]
