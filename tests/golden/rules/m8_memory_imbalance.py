"""Golden cases of M8 memory_imbalance."""

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts


def peaks(*gib: float) -> ProcessFacts:
    return ProcessFacts(world=len(gib), ranks={"memory": tuple(size * (1 << 30) for size in gib)})


POSITIVE = [healthy(process=peaks(14, 10, 10, 10)), healthy(process=peaks(10, 12.5))]
NEGATIVE = [healthy(process=peaks(11, 10, 10, 10)), healthy(process=ProcessFacts(world=2))]
