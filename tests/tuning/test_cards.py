"""Moves to several GPUs, on machines that are not here."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.faked import BASE, Spec, Target

from hotloop.cli.terminal.lines import console
from hotloop.cli.terminal.tune_screen import show
from hotloop.core.agreement import Evidence, agree
from hotloop.core.env import inherited
from hotloop.core.plan import Plan, Use
from hotloop.core.sharding_ids import SHARING, launcher
from hotloop.core.tuning_result import Tuned
from hotloop.jobs.request import fresh_request
from hotloop.techniques.base import HostKind
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.moves import Move, added, both, ordered, promise, resized, shared
from hotloop.tuning.recipe_target import RecipeTarget, moves
from hotloop.tuning.recipe_trial import assembled, record_of
from hotloop.tuning.search import Search

PLAN = Plan(micro_batch=4, accumulation=4).plus("gc-freeze")
CHANGED = ("model.dropout=0", "training.batch_size=16")


@pytest.fixture(scope="module")
def target(tiny) -> RecipeTarget:
    keys = {text.partition("=")[0] for text in CHANGED}
    settings = [s for s in tiny if s.partition("=")[0] not in keys] + list(CHANGED)
    request = record_of(fresh_request("char-lm", settings))
    return RecipeTarget(
        request=request, prepared=assembled({"request": request, "plan": PLAN.to_json()})
    )


def on(target: RecipeTarget, gpus: int, *, device: str = "cpu", **forecast) -> RecipeTarget:
    """Return the recipe on a machine with `gpus` GPUs; `forecast` changes its decision."""
    hardware = replace(target.hardware, count=gpus, device=device)
    decision = replace(target.prepared.decision, **forecast)
    prepared = replace(target.prepared, hardware=hardware, decision=decision)
    return replace(target, prepared=prepared)


def named(recipe: RecipeTarget) -> dict[str, Move]:
    return {move.name: move for move in moves(recipe)}


@pytest.mark.parametrize(("device", "said"), [("cuda", "one GPU is here"), ("cpu", "no GPU is")])
def test_where_one_gpu_is_the_moves_stand_with_their_reason(target, device, said):
    found = named(on(target, 1, device=device))
    for id in SHARING:
        assert said in found[f"{id} on 2 GPUs"].why_not


@pytest.mark.parametrize(("gpus", "shape"), [(2, (4, 2)), (8, (2, 1))])
def test_all_gpus_come_first_with_the_same_samples_in_a_step(target, gpus, shape):
    found = moves(on(target, gpus))
    names = [f"{id} on {gpus} GPUs" for id in ("ddp", "fsdp2", "deepspeed")]
    assert [move.name for move in found[:3]] == names
    assert found[2].why_not is not None, "its gradients cannot be compared, or it is missing"
    for move in found[:2]:
        plan = move.change(PLAN)
        assert move.why_not is None
        assert (plan.micro_batch, plan.accumulation, plan.ranks) == (*shape, gpus)
        assert plan.choice(move.ids[0]) == {}
        assert plan.choice("gc-freeze") == {}
        assert move.change(plan) is None, "it is so already"
        assert plan.makes(16)


def test_one_way_to_share_takes_the_place_of_the_other():
    two = shared("ddp", 2, 16).change(PLAN.plus("cuda-graphs"))
    assert two == Plan(micro_batch=4, accumulation=2, ranks=2).plus("gc-freeze").plus("ddp")
    assert shared("fsdp2", 2, 16).change(two) == two.minus("ddp").plus("fsdp2")


def test_more_gpus_than_samples_are_not_used(target):
    assert on(target, 64).gpus == 16
    assert "ddp on 16 GPUs" in named(on(target, 64))


def test_what_they_share_by_is_no_move_of_its_own(target):
    hardware = on(target, 2).hardware
    ids = {id for move in ordered(hardware, HostKind.ENGINE) for id in move.ids}
    assert ids.isdisjoint(SHARING)
    assert not any(f"without {id}" in named(on(target, 2)) for id in SHARING)


def test_what_excludes_the_way_they_share_is_refused_on_several_gpus():
    graphs, two = added(Use.of("cuda-graphs")), shared("ddp", 2, 16).change(PLAN)
    assert graphs.barred(PLAN) is None
    assert graphs.barred(two) == "ddp excludes it, and 2 ranks need that"
    assert both(graphs, resized(0.5)).barred(two) == graphs.barred(two)


class Small(RecipeTarget):
    """GPUs that hold no more than four samples beside the whole model, and eight beside rows."""

    def _too_much_each(self, plan):
        most = 8 if plan.choice("fsdp2") is not None else 4
        return "forecast: 99 GB" if plan.micro_batch > most else None


def test_a_micro_batch_is_judged_on_the_plan_that_is_the_best_by_then(target):
    two = on(target, 2)
    recipe = Small(request=two.request, prepared=two.prepared)
    twice, (ddp, rows) = named(recipe)["micro batch x2"], moves(recipe)[:2]
    assert twice.why_not is None
    assert twice.barred(PLAN) is None
    assert twice.barred(ddp.change(PLAN)) == "forecast: 99 GB"
    assert twice.barred(rows.change(PLAN)) is None
    assert twice.change(ddp.change(PLAN)).ranks == 2


def test_what_does_not_fit_one_gpu_begins_in_rows_and_says_so(target):
    tight = on(target, 2, too_much="expect an out of memory", memory="99 GB forecast of 1 GB")
    assert tight.baseline == shared("fsdp2", 2, 16).change(PLAN)
    assert tight.note == (
        "one GPU: 99 GB forecast of 1 GB. So the baseline is fsdp2 on 2 GPUs"
    )  # fmt: skip
    assert "fsdp2 on 2 GPUs" not in named(tight)
    assert "ddp on 2 GPUs" in named(tight)
    for fits in (on(target, 2), on(target, 1, too_much="expect an out of memory")):
        assert fits.baseline == PLAN
        assert fits.note is None


def test_what_each_gpu_needs_is_forecast(target):
    gpus = on(target, 2)

    def refused(way, memory):
        hardware = replace(gpus.hardware, memory_bytes=memory)
        less = replace(gpus, prepared=replace(gpus.prepared, hardware=hardware))
        return named(less)[f"{way} on 2 GPUs"].why_not

    for way in ("ddp", "fsdp2"):
        assert refused(way, 1000).startswith("forecast: on each rank ")
    between = [size for size in range(50_000, 2_000_000, 10_000) if refused("ddp", size)][-1]
    assert refused("fsdp2", between) is None, "rows take less than the whole model"


def searched(target: Target, tried: list[Move]) -> Search:
    pace = RaceLength(rounds=8, pairs=1)
    search = Search(target, seconds=10_000.0, clock=lambda: target.now, pace=pace)
    search.measure_baseline()
    search.try_all(tried)
    search.prove()
    return search


def test_a_search_goes_on_from_the_gpus_it_kept():
    faster = {("ddp",): Spec(step=0.05), ("ddp", "gc-freeze"): Spec(step=0.03)}
    slower = {(id,): Spec(step=0.1) for id in ("fsdp2", "deepspeed")}
    target = Target({**faster, **slower})
    tried = [
        *(shared(id, 2, 2) for id in SHARING),
        *(added(Use.of(id)) for id in ("gc-freeze", "cuda-graphs")),
    ]
    target.baseline = replace(BASE, accumulation=2)
    search = searched(target, tried)
    found = {row.name: row for row in search.rows}
    assert found["ddp on 2 GPUs"].decision == "kept"
    assert found["fsdp2 on 2 GPUs"].decision == "dropped"
    assert found["gc-freeze"].decision == "kept"
    assert found["cuda-graphs"].why == "ddp excludes it, and 2 ranks need that"
    assert search.plan == Plan(micro_batch=1, ranks=2).plus("ddp").plus("gc-freeze")
    assert search.proof.decision == "proved"


def test_masks_that_are_drawn_otherwise_cannot_be_told():
    two = shared("ddp", 2, 16).change(PLAN)
    drawn = Evidence(losses=[1.0], norms=[1.0], tensors={"0.0": 1.0}, draws=True)
    other = replace(drawn, losses=[1.1])
    said = agree(drawn, other, promise(two, PLAN))
    assert said.kept is None
    assert "tune without dropout" in said.why
    assert agree(drawn, other, promise(PLAN, PLAN)).kept is False
    still = [replace(each, draws=False) for each in (drawn, other)]
    assert agree(*still, promise(two, PLAN)).kept is False


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (1, "use it: hotloop train --plan there char-lm seed=3"),
        (2, "use it: torchrun --nproc-per-node 2 -m hotloop train --plan there char-lm seed=3"),
    ],
)
def test_the_command_that_uses_a_plan_starts_its_ranks(ranks, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = Plan(micro_batch=4, ranks=ranks).plus("gc-freeze")
    found = Tuned(
        target=("char-lm", "seed=3"), where={}, baseline=Plan(micro_batch=8), plan=plan, rows=()
    )
    show(found, console(stdout=True), folder=tmp_path / "there", run=launcher(ranks))
    assert said in capsys.readouterr().out


def test_a_baseline_of_several_ranks_has_its_command_too(capsys):
    plan = Plan(micro_batch=4, ranks=2).plus("fsdp2")
    found = Tuned(target=("char-lm",), where={}, baseline=plan, plan=plan, rows=())
    show(found, console(stdout=True), folder=Path("there"), run=launcher(2))
    out = capsys.readouterr().out
    assert "torchrun --nproc-per-node 2" in out
    assert "not proved" not in out


def test_tune_is_not_started_by_torchrun():
    process = subprocess.run(
        [sys.executable, "-m", "hotloop", "tune", "char-lm"],
        env=inherited(RANK="0", WORLD_SIZE="2"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == 2
    assert "start it once, without torchrun" in process.stderr
