"""Which line of the project's own code takes the time itself."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.hot_lines import HotLine, hot_line

MODULE = ("/usr/lib/python3/site-packages/torch/nn/modules/module.py", 1700, "Module._call_impl")


def test_the_seconds_of_a_line_are_added_up_with_what_calls_it():
    case = healthy(
        wall=wall(forward=9.0),
        stacks=(
            stack("forward", 3.0, (SCRIPT, 40, "distances"), MODULE, (SCRIPT, 80, "main")),
            stack("forward", 4.0, (SCRIPT, 40, "distances"), MODULE, (SCRIPT, 81, "main")),
            stack("forward", 1.0, (SCRIPT, 41, "distances"), MODULE, (SCRIPT, 80, "main")),
        ),
    )
    at, caller = SourceLocation(file=SCRIPT, line=40), SourceLocation(file=SCRIPT, line=80)
    assert hot_line(case) == HotLine(at, caller, 7.0)


def test_below_a_quarter_of_the_time_there_is_none():
    assert hot_line(healthy(stacks=(stack("forward", 2.0, (SCRIPT, 40, "forward")),))) is None
