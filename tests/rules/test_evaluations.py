"""Evaluations: which are a finding, and which were asked for."""

from dataclasses import replace

import pytest
from tests.golden.cases import healthy, wall

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.steps_and_loaders import EvaluationSpan
from hotloop.core.finding import by_share
from hotloop.rules import ALL
from hotloop.rules.tried import with_results

(H9,) = (rule for rule in ALL if rule.id == "H9")


@pytest.mark.parametrize(
    ("every", "share", "batches", "severity"),
    [
        (500, 0.3, 500, "note"),  # one an epoch
        (100, 0.3, 500, "critical"),
        (500, 0.6, 500, "critical"),  # longer than the epoch itself
        (1, 0.3, 1, "critical"),  # full batches have no epochs
        (500, 0.3, None, "critical"),  # no loader is known
    ],
)
def test_an_evaluation_of_each_epoch_was_asked_for(every, share, batches, severity):
    count = 1000 // every
    steps = healthy().seconds
    seconds = share / (1 - share) * steps
    spans = tuple(
        EvaluationSpan(at=float(n), seconds=seconds / count, step=every * (n + 1), batches=9)
        for n in range(count)
    )
    loaders = tuple(replace(loader, batches=batches) for loader in healthy().loaders)
    case = healthy(evaluations=spans, wall=wall(evaluate=seconds), loaders=loaders)
    (found,) = H9.findings(case)
    assert found.severity == severity
    made = Experiment(name="evaluating", what="without it", steps=9)
    (measured,), _ = with_results(
        replace(case, experiments=(made.with_gains([1.5] * 5),)), [found], {"H9": H9}
    )
    assert measured.measured is not None
    assert measured.severity == ("note" if severity == "note" else by_share(measured.share))
