"""Trials of two ranks on a CPU, over gloo, in processes of their own."""

import sys
import threading
import time
from dataclasses import replace

import psutil
import pytest
from tests.forking_target import ForkingTarget

from hotloop.core.agreement import Evidence, Promise, agree
from hotloop.core.plan import Plan
from hotloop.jobs.request import fresh_request, read_plan
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.recipe_target import RecipeTarget, moves
from hotloop.tuning.recipe_trial import assembled, command, record_of
from hotloop.tuning.trial_process import TrialEnded, TrialProcess
from hotloop.tuning.trial_ranks import environment
from hotloop.tuning.tune import TuneRequest, tune

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="trials are for POSIX")
ONE = Plan(micro_batch=4, accumulation=2)
TWO = replace(ONE, accumulation=1, ranks=2)


@pytest.fixture(scope="module")
def still(tiny) -> list[str]:
    """Without dropout, whose masks are others on other ranks; batches of 7 do not divide."""
    return but(tiny, "model.dropout=0", "training.batch_size=7")


def but(settings: list[str], *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    return [s for s in settings if s.partition("=")[0] not in keys] + list(changed)


def live(settings: list[str], plan: Plan) -> TrialProcess:
    record = record_of(fresh_request("char-lm", settings))
    return TrialProcess(
        lambda channel: command(channel, plan, record), environment=environment(plan.ranks)
    )


def tree(trial: TrialProcess) -> list[psutil.Process]:
    """The ranks, the first one first."""
    found = psutil.Process(trial._pid)
    return [found, *found.children(recursive=True)]


def told(settings: list[str], plan: Plan) -> tuple[Evidence, dict]:
    with live(settings, plan) as trial:
        first = trial.first(seconds=60)
        ranks = tree(trial)
        assert len(ranks) == plan.ranks
        rested = time.monotonic() + 5
        while {each.status() for each in ranks} != {psutil.STATUS_STOPPED}:
            assert time.monotonic() < rested, "one of them does not rest"
            time.sleep(0.01)
        block = trial.block(11, seconds=60)
    gone(ranks)
    return Evidence(**{**first.more["evidence"], **block.more["evidence"]}), dict(block.more)


def gone(ranks: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(ranks, timeout=10)
    assert alive == []


@pytest.fixture(scope="module")
def alone(still) -> Evidence:
    return told(still, ONE)[0]


@pytest.mark.slow  # the search below asks for the same of ddp
@pytest.mark.parametrize("id", ["ddp", "fsdp2"])
def test_losses_and_first_gradients_are_those_of_one_rank(id, still, alone):
    both, more = told(still, TWO.plus(id))
    said = agree(alone, both, Promise(tolerance=1e-5, cosine=0.99999))
    assert said.kept, said.why
    assert len(both.losses) == 8
    assert not alone.draws
    assert more["effects"][id][0] == "in effect"
    assert more["effects"][id][1].startswith("2 ranks")


def test_a_step_that_draws_masks_says_so(tiny):
    seen, _ = told(tiny, Plan(micro_batch=6))
    assert seen.draws


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "when"), [(0, "it computes"), (1, "it computes"), (1, "it rests")]
)
def test_a_rank_that_is_killed_ends_the_trial_with_its_reason(rank, when, still):
    with live(still, TWO.plus("ddp")) as trial:
        trial.first(seconds=60)
        ranks = tree(trial)
        kill = threading.Timer(0.0 if when == "it rests" else 0.5, ranks[rank].kill)
        kill.start()
        if when == "it rests":
            kill.join()
        began = time.perf_counter()
        with pytest.raises(TrialEnded) as ended:
            trial.block(1_000_000, seconds=60)
        assert time.perf_counter() - began < 30
    assert "killed by SIGKILL" in ended.value.reason
    assert ("rank 1" in ended.value.reason) == (rank == 1)
    gone(ranks)


@pytest.mark.slow
def test_a_trial_that_hangs_is_ended_with_all_its_ranks(still):
    with live(still, TWO.plus("ddp")) as trial:
        trial.first(seconds=60)
        ranks = tree(trial)
        threading.Timer(0.5, ranks[1].suspend).start()
        with pytest.raises(TrialEnded, match="steps were not over within 3 s"):
            trial.block(1_000_000, seconds=3)
        gone(ranks)


@pytest.mark.slow
def test_what_goes_wrong_on_all_ranks_is_said_once(still):
    wild = ("training.learning_rate=1e20", "training.warmup_steps=0", "training.gradient_clip=0")
    with live(but(still, *wild), TWO.plus("ddp")) as trial:
        trial.first(seconds=60)
        with pytest.raises(TrialEnded, match="at optimizer step") as ended:
            trial.block(10, seconds=60)
    assert ended.value.outcome == "failed"


@pytest.mark.parametrize("ways", [["ddp"], pytest.param(["ddp", "fsdp2"], marks=pytest.mark.slow)])
def test_tune_tries_two_devices(ways, still, tmp_path):
    before = {*psutil.Process().children(recursive=True)}
    request = record_of(fresh_request("char-lm", still))
    parts = assembled({"request": request, "plan": ONE.to_json()})
    parts = replace(parts, hardware=replace(parts.hardware, count=2))  # of a CPU: gloo ranks
    folder = tmp_path / "tuned"
    with ForkingTarget.of(RecipeTarget(request=request, prepared=parts)) as target:
        found = tune(
            target,
            folder,
            TuneRequest(seconds=300, pace=RaceLength(rounds=8, pairs=1, block=0.05)),
            name=["char-lm", *still],
            propose=lambda base: moves(target)[: len(ways)],
        )
    tried = found.rows[1 : 1 + len(ways)]
    assert [row.name for row in tried] == [f"{way} on 2 GPUs" for way in ways]
    for row in tried:
        assert row.decision in ("dropped", "cannot be told", "kept")
        assert (row.plan.ranks, row.plan.micro_batch, row.plan.makes(7)) == (2, 4, True)
        if row.parity is None:  # it was let go before it could be compared
            assert row.why.endswith("times as long in the warm-up")
        else:
            assert row.parity.kept, row.parity.why
    assert read_plan(folder / "plan.json").ranks == found.plan.ranks
    assert {*psutil.Process().children(recursive=True)} <= before
