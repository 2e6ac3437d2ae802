"""Golden cases of M4 straggler."""

from tests.golden.cases import healthy

from hotloop.core.around import Process


def ranks(wait: tuple[float, ...], forward: tuple[float, ...] = (0.006,) * 4) -> Process:
    return Process(world=4, ranks={"data wait": wait, "forward": forward})


POSITIVE = [healthy(process=ranks((0.001, 0.001, 0.004, 0.001)))]
NEGATIVE = [
    healthy(process=ranks((0.001, 0.001, 0.0012, 0.001))),
    healthy(process=ranks((0.001, 0.001, 0.003, 0.001), (0.006, 0.006, 0.008, 0.006))),
    healthy(process=Process(world=4)),
]
