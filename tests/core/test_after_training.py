"""What comes once after training counts no more than a usual stop before."""

import pytest

from hotloop.core.after_training import beyond_usual


@pytest.mark.parametrize(
    ("spans", "beyond"),
    [
        ([(1, 0.1), (2, 0.1), (3, 20.0)], 19.9),  # a game that is played at the end
        ([(1, 0.1), (2, 0.1), (3, 0.1)], 0.0),
        ([(1, 0.1), (1, 0.3), (2, 0.4), (3, 0.5)], 0.1),  # two loaders in the first stop
        ([(0, 0.1), (1, 10.0), (3, 10.0)], 0.0),  # a look before training, and one stop
        ([(3, 20.0)], 0.0),  # nothing to compare it with
        ([(0, 5.0), (2, 5.0)], 0.0),  # none after the last step
        ([], 0.0),
    ],
)
def test_only_the_part_beyond_a_usual_stop_is_told(spans, beyond):
    assert beyond_usual(spans, 3) == pytest.approx(beyond)
