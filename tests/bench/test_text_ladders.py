"""The ladders of the recipes on rows: what each rung changes, and what it is raced as."""

import json
from dataclasses import asdict

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.bench.tokens_per_sample import work_of
from hotloop.config.schema import flatten
from hotloop.config.settings import rebuild
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.recipes.building.ladder import PlainLoopKind, Spot
from hotloop.recipes.pair_classifier.ladder import LADDER as PAIR_CLASSIFIER
from hotloop.recipes.sft.ladders import CHAT_SFT, EXPERT_SFT
from hotloop.recipes.task_router.ladder import LADDER as TASK_ROUTER

from .conftest import SLOW, Races, Told, climbed

LADDERS = [PAIR_CLASSIFIER, CHAT_SFT, EXPERT_SFT, TASK_ROUTER]
BY_RECIPE = pytest.mark.parametrize("ladder", LADDERS, ids=lambda ladder: ladder.recipe)
CPU = Hardware(device="cpu", name="a CPU", cpu_features=frozenset({"avx2"}), cores=2)
OWN = Plan(micro_batch=4, accumulation=2).plus("fused-adamw")
GIVEN = ["model.name=somewhere", "data.path=rows.jsonl"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return an expert of rows of 3 to 12 words, assembled: a tiny Qwen3."""
    folder = tmp_path_factory.mktemp("qwen3")
    tiny_tokenizer.save(folder)
    tiny_models.saved(folder, "qwen3", vocab_size=400)
    told = [{"prompt": f"{at}" + " so" * (at % 9), "response": "fox " * 3} for at in range(60)]
    data = jsonl(folder / "rows.jsonl", told)
    asked = [f"model.name={folder}", f"data.path={data}", "data.max_length=64"]
    asked += ["training.batch_size=4", "training.accumulation=2", "training.max_steps=20"]
    return assemble(fresh_request("expert-sft", asked), engine.silent, lambda: None)


@BY_RECIPE
def test_each_rung_makes_steps_of_as_many_rows_with_settings_that_hold(ladder):
    request = fresh_request(ladder.recipe, GIVEN)
    spot, below = Spot(config=request.config, hardware=CPU, own=OWN), OWN
    for rung in ladder.rungs:
        plan = rung.change(below, spot)
        if isinstance(plan, str):
            continue
        below = below if rung.is_top else plan
        assert plan.micro_batch * plan.accumulation == 8
        flat = flatten(request.config)
        known = {key: value for key, value in rung.settings(request.config).items() if key in flat}
        made = rebuild(request.recipe.resolve.schema, {**flat, **known}, origin=rung.id)
        assert known.items() <= flatten(made).items()
        assert known.keys() == rung.settings(request.config).keys(), rung.id
    assert ladder.rungs[-1].settings(request.config) == {}, "hotloop's own choice is as asked"
    assert ladder.rungs[-1].change(below, spot) == OWN


@BY_RECIPE
def test_one_thing_changes_from_rung_to_rung(ladder):
    config = fresh_request(ladder.recipe, GIVEN).config
    spot, below, before = Spot(config=config, hardware=CPU, own=OWN), OWN, None
    for rung in ladder.rungs[:-1]:
        plan = rung.change(below, spot)
        if isinstance(plan, str):
            continue
        settings = rung.settings(config)
        if before is not None:
            loop, old_loop, old = rung.loop, before[0], before[1]
            changed = {key for key in settings if settings[key] != old[key]}
            others = (loop != old_loop) + bool(changed) + (plan != below)
            assert others == 1 or (others == 0 and rung.id == "lean"), (rung.id, changed)
        before, below = (rung.loop, settings), plan


def test_an_expert_starts_from_4_bits_only_where_weights_are_frozen():
    whole = fresh_request("expert-sft", [*GIVEN, "adapter.method=none"]).config
    lora = next(rung for rung in EXPERT_SFT.rungs if rung.id == "lora")
    spot = Spot(config=whole, hardware=CPU, own=OWN)
    assert EXPERT_SFT.before.settings(whole)["adapter.quantization"] == "none"
    assert "all weights are trained" in lora.change(OWN, spot)


def test_every_rung_is_raced_as_it_is_and_work_is_what_is_compared(parts, tmp_path):
    made = []

    class Kept(Told):
        def __init__(self, command, **how):
            super().__init__(command)
            made.append(json.loads(self.command[3]))

    only = ("longest", "engine", "packed")
    races = Races(dict.fromkeys(only, SLOW))
    result = climbed(parts, tmp_path, ladder=EXPERT_SFT, only=only, races=races, listen=Kept)
    asked = made[1::2]
    assert [each["loop"] for each in asked] == [
        asdict(PlainLoopKind(pads="to the limit", logits="all")),
        asdict(PlainLoopKind(pads="to the longest", logits="all")),
        None,
        None,
    ]
    assert [each["request"]["config"]["data.packing"] for each in asked] == [False] * 3 + [True]
    rates = {row.id: row.figures["tokens_per_s"] for row in result.rows}
    packed, alone = rates["packed"], rates["engine"]
    assert packed > 3 * alone, "as many rows a step, of several texts each"
    assert result.row("packed").comparison.ratio == pytest.approx(alone / packed)
    assert result.row("engine").comparison.ratio == pytest.approx(1)
    assert "mfu" not in result.row("packed").figures
    assert result.row("packed").unknown["mfu"] == "rows differ, and so do their FLOP"


def test_work_counts_no_padding(parts):
    work, train = work_of(parts.job), parts.job.train
    whole = [train.batch(0, at, 1) for at in range(len(train))]
    assert work.tokens == pytest.approx(train.lengths[train.chosen].mean())
    assert work.targets == pytest.approx(sum(batch.targets for batch in whole) / len(whole))
    assert work.tokens < whole[0].tokens, "the last packed row is not full"


@pytest.mark.parametrize("phase", ["1", "2", "3"])
def test_a_router_climbs_what_its_phase_has(phase):
    more = ["adapters_from=a", "router_from=b"] if phase == "3" else []
    config = fresh_request("task-router", [*GIVEN, f"phase={phase}", *more]).config
    spot = Spot(config=config, hardware=CPU, own=OWN)
    left = {r.id for r in TASK_ROUTER.rungs if isinstance(r.change(OWN, spot), str)}
    expected = {"1": {"kept"}, "2": {"together"}, "3": set()}[phase]
    assert left - {"low", "products", "graphs"} == expected  # these go by the machine
    assert TASK_ROUTER.before.loop == PlainLoopKind(
        pads="to the limit", rows="one at a time", frozen="again"
    )
