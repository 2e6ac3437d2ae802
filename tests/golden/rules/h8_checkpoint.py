"""Golden cases of H8 checkpoint."""

from tests.golden.cases import PLANNED, SCRIPT, healthy, planned, wall

from hotloop.core.case.steps_and_loaders import Save
from hotloop.core.finding import SourceLocation


def saves(count: int, seconds: float, *, last: bool = False) -> tuple[Save, ...]:
    """Saves of `seconds` each, every ten steps or all at the end."""
    return tuple(
        Save(
            at=float(number),
            seconds=seconds,
            step=1000 if last else 10 * number,
            bytes=8 << 20,
            path="best.pt",
            place=SourceLocation(file=SCRIPT, line=70),
        )
        for number in range(count)
    )


POSITIVE = [
    healthy(saves=saves(50, 0.5), wall=wall(save=25.0)),
    healthy(saves=saves(2, 0.2), wall=wall(save=0.4)),  # 3 %, but each is 20 steps long
]
NEGATIVE = [
    healthy(saves=saves(1, 2.0, last=True), wall=wall(save=2.0)),  # the one at the end
    healthy(saves=saves(5, 0.02), wall=wall(save=0.1)),
]

# Before a run.
SHARES = PLANNED.time.rows
POSITIVE += [
    planned(time={"rows": {**SHARES, "save": 10.0}}),
]
NEGATIVE += [
    planned(time={"rows": {**SHARES, "save": 4.0}}),
    planned(time={"rows": {"save": 30.0, "step": 29.0}}),
    planned(time=None),
]
