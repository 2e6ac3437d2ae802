"""The plain loop in a process of its own."""

from hotloop.bench.plain import Each
from hotloop.core.plan import Plan
from hotloop.tuning.live import Live
from hotloop.tuning.recipetrial import command, record_of


def test_samples_come_one_by_one(parts):
    each = Each(parts.job.train)
    assert len(each) == len(parts.job.train)
    whole = parts.job.train.batch(0, 3, 1)
    assert each[3]["inputs"].tolist() == whole.tensors["inputs"][0].tolist()


def test_it_trains_and_says_what_a_trial_says(parts, tmp_path):
    plan = Plan(micro_batch=2, accumulation=3).plus("sdpa", backend="naive")
    record = record_of(parts.request)

    def start(channel: int) -> list[str]:
        return command(channel, plan, record, aside=tmp_path, module="hotloop.bench.plain")

    with Live(start) as trial:
        trial.first(seconds=60)
        said = trial.block(39, seconds=60).more
    assert said["epochs"] == 3, "56 micro batches make 18 steps and a rest"
    assert said["effects"]["sdpa"][0] == "in effect"
    losses = [*said["evidence"]["losses"], *said["evidence"]["late"]]
    assert len(losses) == 40
    assert sum(losses[-8:]) < sum(losses[:8]) - 0.5, "it learns"
    assert min(said["aside"]["validation"]) > 0
    assert 0 < said["data_wait"] < 0.1
