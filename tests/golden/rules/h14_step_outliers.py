"""Golden cases of H14 step_outliers."""

from tests.golden.cases import SCRIPT, healthy, stack

from hotloop.core.case.steps_and_loaders import Steps


def steps(row: str, *, every: int = 20, row_seconds: float = 0.06, wall: float = 0.07) -> Steps:
    """1,000 steps of 10 ms, of which every `every`-th takes `wall`, in `row`."""
    slow = [number % every == 0 for number in range(1000)]
    return Steps(
        count=1000,
        wall=tuple(wall if late else 0.01 for late in slow),
        rows={
            "forward": (0.003,) * 1000,
            row: tuple(row_seconds if late else 0.001 for late in slow),
        },
        numbers=tuple(range(1, 1001)),
    )


POSITIVE = [
    healthy(steps=steps("after step"), stacks=(stack("after step", 3.0, (SCRIPT, 50, "main")),)),
    healthy(steps=steps("exchange")),
]
NEGATIVE = [
    healthy(steps=steps("data wait")),  # D5, D19
    healthy(steps=steps("after step", row_seconds=0.02)),  # spread over all rows
    healthy(steps=steps("after step", every=150)),  # too few
    healthy(steps=steps("after step", row_seconds=0.006, wall=0.015)),
]
