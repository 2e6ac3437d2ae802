"""The plain loop in a process of its own."""

import pytest
import torch
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.bench.plain_loop import SampleDataset, loss_of_all, padded
from hotloop.core.plan import Plan
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.tuning.recipe_trial import command, record_of
from hotloop.tuning.trial_process import TrialProcess


def test_samples_come_one_by_one(parts):
    each = SampleDataset(parts.job.train)
    assert len(each) == len(parts.job.train)
    whole = parts.job.train.batch(0, 3, 1)
    assert each[3]["inputs"].tolist() == whole.tensors["inputs"][0].tolist()


def test_it_trains_and_says_what_a_trial_says(parts, tmp_path):
    plan = Plan(micro_batch=2, accumulation=3).plus("sdpa", backend="naive")
    record = record_of(parts.request)

    def start(channel: int) -> list[str]:
        return command(channel, plan, record, aside=tmp_path, module="hotloop.bench.plain_loop")

    with TrialProcess(start) as trial:
        trial.first(seconds=60)
        said = trial.block(39, seconds=60).more
    assert said["epochs"] == 3, "56 micro batches make 18 steps and a rest"
    assert said["effects"]["sdpa"][0] == "in effect"
    losses = [*said["evidence"]["losses"], *said["evidence"]["late"]]
    assert len(losses) == 40
    assert sum(losses[-8:]) < sum(losses[:8]) - 0.5, "it learns"
    assert min(said["aside"]["validation"]) > 0
    assert 0 < said["data_wait"] < 0.1


def chats(tmp_path):
    """Return a tiny chat-sft of padded rows, assembled."""
    tiny_tokenizer.save(tmp_path)
    tiny_models.saved(tmp_path, "qwen3", vocab_size=400)
    told = [{"prompt": f"{at}" + " so" * (at % 9), "response": "fox " * 3} for at in range(40)]
    data = jsonl(tmp_path / "rows.jsonl", told)
    asked = [f"model.name={tmp_path}", f"data.path={data}", "data.max_length=64"]
    asked += ["data.layout=padded", "training.batch_size=4", "training.accumulation=2"]
    asked += ["training.learning_rate=0.01"]
    return assemble(fresh_request("chat-sft", asked), engine.silent, lambda: None)


def test_rows_are_padded_to_the_limit_or_to_their_longest(tmp_path):
    train = chats(tmp_path).job.train
    batch = padded(train, width=64)([0, 5])
    assert batch.tensors["input_ids"].shape == (2, 64)
    longest = int(train.lengths[train.chosen[[0, 5]]].max())
    assert longest <= padded(train, width=None)([0, 5]).tensors["input_ids"].shape[1] < 64
    assert batch.targets == padded(train, width=None)([0, 5]).targets


def test_the_loss_of_all_logits_is_the_loss_of_those_that_are_needed(tmp_path):
    job = chats(tmp_path).job
    model, batch = job.model().eval(), padded(job.train, width=64)([0, 1, 2])
    tensors = {**batch.tensors, **batch.beside(torch.device("cpu"))}
    assert loss_of_all(model, tensors).item() == pytest.approx(job.loss(model, tensors).item())


def test_a_plain_loop_over_rows_learns(tmp_path):
    made = chats(tmp_path)
    record, plan = record_of(made.request), Plan(micro_batch=2, accumulation=2)
    loop = {"pads": "to the limit", "logits": "all"}

    def start(channel: int) -> list[str]:
        module = "hotloop.bench.plain_loop"
        return command(channel, plan, record, aside=tmp_path, module=module, loop=loop)

    with TrialProcess(start) as trial:
        trial.first(seconds=120)
        said = trial.block(39, seconds=120).more
    losses = [*said["evidence"]["losses"], *said["evidence"]["late"]]
    assert len(losses) == 40
    assert sum(losses[-8:]) < sum(losses[:8]) - 0.5
