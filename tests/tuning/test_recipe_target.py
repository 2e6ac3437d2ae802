import gc
import weakref
from dataclasses import replace

import pytest
from tests.forking_target import ForkingTarget

from hotloop.core.plan import Plan
from hotloop.core.sharding_ids import SHARING
from hotloop.core.trial import Trial
from hotloop.jobs.request import fresh_request
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.moves import resized
from hotloop.tuning.recipe_target import RecipeTarget, moves
from hotloop.tuning.recipe_trial import assembled, record_of
from hotloop.tuning.search import Search
from hotloop.tuning.trial_process import TrialEnded

STILL = ("model.dropout=0", "training.batch_size=8")


@pytest.fixture(scope="module")
def target(tiny) -> RecipeTarget:
    keys = {text.partition("=")[0] for text in STILL}
    settings = [s for s in tiny if s.partition("=")[0] not in keys] + list(STILL)
    return recipe(settings, Plan(micro_batch=4, accumulation=2).plus("gc-freeze"))


def recipe(settings: list[str], plan: Plan) -> RecipeTarget:
    request = record_of(fresh_request("char-lm", settings))
    return RecipeTarget(
        request=request, prepared=assembled({"request": request, "plan": plan.to_json()})
    )


def named(target: RecipeTarget, **more) -> dict[str, str | None]:
    return {move.name: move.why_not for move in moves(target, **more)}


def test_the_baseline_is_the_plan_of_train(target):
    assert target.baseline == Plan(micro_batch=4, accumulation=2).plus("gc-freeze")
    assert target.hardware.device == "cpu"


def test_gpus_come_first_then_shapes_and_techniques_and_last_what_is_there_is_left_out(target):
    names = list(named(target))
    assert names[: len(SHARING)] == [f"{id} on 2 GPUs" for id in SHARING]
    names = names[len(SHARING) :]
    assert names[:3] == ["micro batch x2", "micro batch x0.5", "micro batch x0.25"]
    assert names[-1] == "without gc-freeze"
    assert "gc-freeze" not in names
    assert {"sdpa(backend=auto)", "sdpa(backend=naive)", "compile"} <= set(names)
    assert not any(name.startswith("activation-checkpointing") for name in names)


def test_what_a_trial_does_not_do_or_a_run_is_too_short_for_is_not_tried(target):
    found = named(target, seconds_per_step=0.1)
    assert found["async-checkpoint"].endswith("a trial saves nothing")
    assert found["compile"] == "all 40 steps take 4 s: compiling cannot be earned back"
    assert named(target)["compile"] != found["compile"]
    assert named(target, seconds_per_step=100.0)["compile"] != found["compile"]


def test_what_was_assembled_to_judge_a_plan_is_let_go(target):
    asked = {"request": target.request, "plan": target.baseline.to_json()}
    train = weakref.ref(assembled(asked).job.train)
    assert target.too_much(target.baseline) is None
    gc.collect()
    assert train() is None


class Tight(RecipeTarget):
    """A machine whose memory holds no larger micro batch, unless it is recomputed."""

    def too_much(self, plan):
        recomputes = plan.choice("activation-checkpointing") is not None
        return "forecast: 99 GB" if plan.micro_batch > 4 and not recomputes else None


def test_a_shape_that_the_forecast_refuses_is_tried_recomputing(target):
    found = named(Tight(request=target.request, prepared=target.prepared))
    assert found["micro batch x2"] == "forecast: 99 GB"
    assert found["activation-checkpointing(mode=selective) + micro batch x2"] is None
    assert found["micro batch x0.5"] is None
    assert "activation-checkpointing(mode=selective) + micro batch x2" not in named(target)


def test_a_plan_that_cannot_be_built_is_not_tried_and_says_why(target):
    said = target.too_much(Plan(micro_batch=3))
    assert "steps of 3 samples, training.batch_size is 8" in said


def test_two_trials_must_fit_into_memory(target):
    assert target.room(Trial(plan=target.baseline)) is None
    assert target.room(Trial(plan=target.baseline, peak_bytes=1)) is None
    assert target.room(Trial(plan=target.baseline, peak_bytes=1 << 60)).startswith("one takes ")


def test_a_trial_of_a_recipe_that_cannot_be_built_ends_with_its_reason(tiny):
    good = recipe(tiny, Plan(micro_batch=6))
    entry = good.entry(Plan(micro_batch=5), epochs=0, needs=())
    with entry.start() as live, pytest.raises(TrialEnded, match="steps of 5 samples"):
        live.first(seconds=60)


def test_the_first_trial_of_a_recipe_times_a_validation_and_a_save_of_which_nothing_stays(
    target, tmp_path
):
    (alone,) = race([replace(target, aside=tmp_path).alone()], RaceLength(rounds=0))
    assert alone.is_ok
    assert alone.aside.keys() == {"validation", "save"}
    assert all(seconds > 0 for seconds in alone.aside.values())
    assert alone.compiled == 0.0
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_in_bf16_may_round_in_other_micro_batches_as_it_rounds_itself(tiny):
    settings = [s for s in tiny if s.partition("=")[0] != "model.dropout"] + list(STILL)
    plan = Plan(micro_batch=8).plus("autocast-bf16")
    of = recipe([s for s in settings if not s.startswith("training.batch_size=")]
                + ["training.batch_size=8"], plan)  # fmt: skip
    assert of.reordered == replace(plan, micro_batch=2, accumulation=4)
    pace = RaceLength(rounds=1, pairs=1, block=0.01)
    with ForkingTarget.of(of) as forking:
        search = Search(forking, seconds=300, pace=pace)
        search.measure_baseline()
        search.try_all([resized(0.5)])
    (row,) = (row for row in search.rows if row.name == "micro batch x0.5")
    assert row.parity is not None
    assert row.parity.kept, row.parity.why
