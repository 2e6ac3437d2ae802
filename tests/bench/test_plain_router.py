"""The plain loops of a task router: rows one by one, and the frozen model at each step."""

from dataclasses import asdict

import pytest
import torch
from tests.recipes.task_router.test_recipe import data, model, settings  # noqa: F401

from hotloop.bench.plain_loop import each_row, padded
from hotloop.core.plan import Plan
from hotloop.jobs import train
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.recipes.building.ladder import PlainLoopKind
from hotloop.tuning.recipe_trial import command, record_of
from hotloop.tuning.trial_process import TrialProcess


@pytest.fixture
def parts(model, data):  # noqa: F811
    def made(phase, *more):
        request = fresh_request("task-router", settings(model, data, f"phase={phase}", *more))
        return assemble(request, train.silent, lambda: None)

    return made


def test_rows_one_by_one_add_up_to_the_loss_of_the_batch(parts):
    job = parts(1).job
    trained = job.model().eval()  # without dropout, which draws for each row anew
    batch = padded(job.train, width=48)(range(8))
    tensors = {**batch.tensors, **batch.beside(torch.device("cpu"))}
    alone = sum(each_row(tensors, lambda row: job.loss(trained, row)))
    assert alone.item() == pytest.approx(job.loss(trained, tensors).item(), rel=1e-4)


@pytest.mark.parametrize("width", [None, 48])
def test_features_that_are_computed_are_those_that_are_kept(parts, width):
    job = parts(2).job
    batch = job.train.batch(0, 0, 8)
    computed = job.computed(torch.device("cpu"), width)(batch.tensors["row"])
    torch.testing.assert_close(computed, batch.tensors["features"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("phase", ["1", "2"])
@pytest.mark.slow
def test_such_a_loop_learns_in_a_process_of_its_own(parts, tmp_path, phase):
    made = parts(phase, "training.max_steps=40", "training.learning_rate=0.01")
    record, plan = record_of(made.request), Plan(micro_batch=4, accumulation=2)
    loop = asdict(PlainLoopKind(pads="to the limit", rows="one at a time", frozen="again"))

    def start(channel: int) -> list[str]:
        module = "hotloop.bench.plain_loop"
        return command(channel, plan, record, aside=tmp_path, module=module, loop=loop)

    with TrialProcess(start) as trial:
        trial.first(seconds=120)
        said = trial.block(23, seconds=120).more
    losses = [*said["evidence"]["losses"], *said["evidence"]["late"]]
    assert len(losses) == 24
    assert sum(losses[-8:]) < sum(losses[:8])
