"""ZeRO of DeepSpeed on two gloo ranks: what it trains, saves and goes on with is what others do."""

import json
import shutil

import pytest
import torch
from tests.distributed.test_equal import alone, exported, settings
from tests.several import apart, ended, evaluations, losses, started, together

from hotloop.api import load_run
from hotloop.core.sharding_ids import SHARING
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing
from hotloop.engine.checkpoint.tensors import read_all
from hotloop.jobs import train
from hotloop.techniques import deepspeed, get

__all__ = ["alone", "settings"]  # fixtures

missing = deepspeed.why_not_installed()
pytestmark = pytest.mark.skipif(missing is not None, reason=f"ZeRO is not tried: {missing}")
STAGES = (1, 2, 3)
MOST = get("deepspeed").tolerance
HALF = 6  # steps, of 12
RUN = ["training.max_steps=12", "training.save_every_steps=6", "training.eval_every_steps=3"]


def zero(stage):
    return ["--with", f"deepspeed:stage={stage}"]


def weights(folder, kind="model"):
    return read_all(listing(folder / "checkpoints")[-1].path, kind)


def same(mine, theirs):
    return mine.keys() == theirs.keys() and all(torch.equal(mine[n], theirs[n]) for n in mine)


def changed(settings, *new):
    keys = {word.partition("=")[0] for word in new}
    return [*(word for word in settings if word.partition("=")[0] not in keys), *new]


def halved(folder, to, technique=None):
    """Copy a run as if it had been killed after its first half; another way to share goes on."""
    shutil.copytree(folder, to)
    for stored in listing(to / "checkpoints"):
        if stored.step > HALF:
            shutil.rmtree(stored.path)
    record = json.loads((to / "run.json").read_text())
    (to / "run.json").write_text(json.dumps({**record, "status": "running"}))
    if technique is not None:
        plan = json.loads((to / "plan.json").read_text())
        uses = {id: use for id, use in plan["techniques"].items() if id not in SHARING}
        (to / "plan.json").write_text(json.dumps({**plan, "techniques": {**uses, **technique}}))
    return to


@pytest.fixture(scope="module")
def short(settings):
    """Return the settings of a run that is saved in its middle."""
    return changed(settings["char-lm"], *RUN)


@pytest.fixture(scope="module")
def runs(short, tmp_path_factory):
    """Return the folder of such a run of two ranks, by the stage of ZeRO; 0: by ddp."""
    made = {}

    def run(stage):
        if stage not in made:
            made[stage] = tmp_path_factory.mktemp("runs") / f"zero{stage}"
            how = zero(stage) if stage else []
            together("train", "char-lm", *short, *how, "--out", made[stage])
        return made[stage]

    return run


@pytest.mark.parametrize(
    ("recipe", "stage"),
    [
        *(("char-lm", stage) for stage in STAGES),
        ("pair-classifier", 2),
        ("expert-sft", 1),
        ("expert-sft", 3),
    ],
)
def test_two_ranks_train_what_one_does(recipe, stage, settings, alone, tmp_path):
    two, one = tmp_path / "two", alone(recipe)
    said = together("train", recipe, *settings[recipe], *zero(stage), "--out", two)
    assert "DeepSpeed" not in said
    assert "Warning" not in said
    assert apart(losses(two), losses(one)) <= MOST
    assert losses(two, rank=1) == losses(two), "each rank logs the loss of all"
    assert apart(evaluations(two), evaluations(one)) <= MOST
    effects = {e["technique"].partition("(")[0]: e for e in load_run(two).record["effects"]}
    assert effects["deepspeed"]["how"].startswith(f"2 ranks, ZeRO-{stage}: rank 0 updates 5")
    for kind in ("model", "optimizer"):
        shapes = [{n: t.shape for n, t in weights(run, kind).items()} for run in (one, two)]
        assert shapes[0] == shapes[1]
    both = exported(one, recipe, tmp_path / "a"), exported(two, recipe, tmp_path / "b")
    assert both[0].keys() == both[1].keys() != set()
    for name, tensor in both[0].items():
        torch.testing.assert_close(both[1][name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_goes_on_bit_for_bit(stage, runs, tmp_path):
    straight, again = runs(stage), halved(runs(stage), tmp_path / "again")
    together("train", "--resume", again)
    assert losses(again)[-HALF:] == losses(straight)[-HALF:]
    assert same(weights(again), weights(straight))
    assert same(weights(again, "optimizer"), weights(straight, "optimizer"))


def test_one_process_goes_on_with_what_zero_saved(runs, tmp_path):
    straight, again = runs(2), halved(runs(2), tmp_path / "again")
    train.resume(again)
    assert apart(losses(again)[-HALF:], losses(straight)[-HALF:]) <= MOST


@pytest.mark.parametrize(("saved", "goes_on"), [(2, 0), (0, 2), (0, 3), (3, 1)])
def test_another_way_to_share_goes_on(saved, goes_on, runs, tmp_path):
    technique = {"deepspeed": {"stage": goes_on}} if goes_on else {"ddp": {}}
    straight, again = runs(goes_on), halved(runs(saved), tmp_path / "again", technique)
    together("train", "--resume", again)
    used = {e["technique"].partition("(")[0] for e in RunDir(again).read()["effects"]}
    assert used & {*SHARING} == {*technique}
    assert apart(losses(again)[-HALF:], losses(straight)[-HALF:]) <= MOST


@pytest.mark.parametrize("stage", [1, 3])
def test_weights_to_begin_with_are_taken_over(stage, short, runs, tmp_path):
    start = changed(short, f"init_from={runs(0)}", "training.max_steps=3")
    together("train", "char-lm", *start, *zero(stage), "--out", tmp_path / "zero")
    together("train", "char-lm", *start, "--out", tmp_path / "ddp")
    assert apart(losses(tmp_path / "zero"), losses(tmp_path / "ddp")) <= MOST


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_not_finite_stays_out_of_the_weights(stage, short, tmp_path):
    wild = changed(short, "training.learning_rate=1e38", "training.gradient_clip=0")
    process = started("train", "char-lm", *wild, *zero(stage), "--out", tmp_path / "run")
    code, _, said = ended(process, within=60)
    assert code != 0
    assert "at optimizer step" in said
    assert RunDir(tmp_path / "run").read()["status"] == "diverged"
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "run").values())


@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_that_fails_waits_for_nobody(stage, short, tmp_path):
    out = tmp_path / "run"
    module = "tests.distributed.planted"
    process = started("train", "char-lm", *short, *zero(stage), "--out", out, module=module)
    code, _, said = ended(process, within=60)
    assert code != 0
    assert "RuntimeError: planted" in said
    assert "Exception ignored" not in said
