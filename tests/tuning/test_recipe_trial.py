"""Trials of char-lm, one in a process of its own and others in forks."""

import json
from dataclasses import replace
from functools import partial

import pytest
from tests.forked import RECIPE_TRIAL, Forked, Forks

from hotloop.api import load_run
from hotloop.core.agreement import Evidence, Promise, agree
from hotloop.core.errors import HotloopError
from hotloop.core.plan import Plan
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request
from hotloop.tuning import recipe_trial
from hotloop.tuning.recipe_trial import assembled, command, record_of
from hotloop.tuning.trial_process import TrialEnded, TrialProcess

PLAIN = Plan(micro_batch=6)
SPLIT = Plan(micro_batch=2, accumulation=3)


def live(settings: list[str], plan: Plan, **switches) -> TrialProcess:
    record = record_of(fresh_request("char-lm", settings))
    return TrialProcess(lambda channel: command(channel, plan, record, **switches))


@pytest.fixture(scope="module")
def forks():
    with Forks(*RECIPE_TRIAL) as running:
        yield running


def forked(forks: Forks, settings: list[str], plan: Plan) -> Forked:
    record = record_of(fresh_request("char-lm", settings))
    return forks.start(command(0, plan, record), module=recipe_trial.__name__)


def told(trial: TrialProcess | Forked, *, steps: int = 11) -> dict:
    """What a trial says of so many steps after the first, with all its evidence."""
    with trial:
        first = trial.first(seconds=60)
        block = trial.block(steps, seconds=60)
    evidence = {**first.more["evidence"], **block.more["evidence"]}
    assert (first.made, block.made, block.at) == (1, steps, steps + 1)
    return {**block.more, "evidence": evidence, "seconds": (first.seconds, block.seconds)}


def evidence(said: dict) -> Evidence:
    return Evidence(**said["evidence"])


@pytest.fixture(scope="module")
def still(tiny) -> list[str]:
    """Without dropout, whose masks are others for other micro batches."""
    return but(tiny, "model.dropout=0")


def but(settings: list[str], *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    return [s for s in settings if s.partition("=")[0] not in keys] + list(changed)


@pytest.fixture(scope="module")
def plain(still, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("aside")
    said = told(live(still, PLAIN, aside=folder))
    assert list(folder.iterdir()) == [], "nothing of the save stays"
    return said


def test_its_losses_are_those_of_the_run_bit_for_bit(plain, still, tmp_path):
    request = replace(fresh_request("char-lm", still), plan=PLAIN)
    train.train(request, out=tmp_path / "run")
    losses = [step.loss for step in load_run(tmp_path / "run").steps][:12]
    assert [*plain["evidence"]["losses"], *plain["evidence"]["late"]] == losses


def test_two_trials_of_one_plan_have_equal_losses_and_gradients(plain, still, forks):
    again = told(forked(forks, still, PLAIN))
    assert again["evidence"] == plain["evidence"]
    assert agree(evidence(plain), evidence(again), Promise()).kept


def test_the_gradients_are_those_of_the_whole_batch(plain, still, forks):
    split = told(forked(forks, still, SPLIT))
    assert agree(evidence(plain), evidence(split), Promise(tolerance=1e-5, cosine=1 - 1e-6)).kept
    assert len(split["evidence"]["norms"]) == len(split["evidence"]["losses"]) == 8


def test_it_says_where_the_time_went_and_what_is_in_effect(plain):
    assert plain["epochs"] == 1
    assert plain["start"] > 0
    assert plain["compile"] == 0
    assert plain["effects"] == {}
    assert plain["cpu"] > 0
    assert 0 <= plain["data_wait"] < plain["seconds"][1]
    assert plain["peak"] is None, "there is no GPU"
    assert min(plain["aside"]["validation"]) > 0
    assert plain["aside"]["save"] > 0


def test_effects_are_told_by_technique_and_epochs_are_counted(tiny, forks):
    plan = PLAIN.plus("sdpa", backend="auto").plus("tf32")
    said = told(forked(forks, tiny, plan), steps=20)
    assert said["effects"]["sdpa"][0] == "in effect"
    assert said["effects"]["tf32"][0] == "refused"
    assert said["epochs"] == 2, "an epoch has 19 steps"
    assert said["aside"] is None


def test_what_goes_wrong_in_a_step_is_an_outcome_with_its_reason(tiny):
    wild = ("training.learning_rate=1e20", "training.warmup_steps=0", "training.gradient_clip=0")
    with live(but(tiny, *wild), PLAIN) as trial:
        trial.first(seconds=60)
        with pytest.raises(TrialEnded, match="at optimizer step") as ended:
            trial.block(10, seconds=60)
    assert ended.value.outcome == "failed"


@pytest.mark.parametrize(
    ("plan", "changed", "why"),
    [
        (Plan(micro_batch=5), (), "steps of 5 samples, training.batch_size is 6"),
        (PLAIN, ("data.path=nowhere.txt",), "nowhere.txt"),
    ],
)
def test_what_cannot_be_built_is_refused_as_by_train(plan, changed, why, tiny):
    asked = json.loads(
        command(0, plan, record_of(fresh_request("char-lm", but(tiny, *changed))))[-1]
    )
    with pytest.raises(HotloopError, match=why):
        assembled(asked)


def test_a_request_travels_as_text(tiny):
    record = record_of(fresh_request("char-lm", tiny))
    line = partial(command, 7, PLAIN)(json.loads(json.dumps(record)))
    assert json.loads(line[-1])["request"] == record
