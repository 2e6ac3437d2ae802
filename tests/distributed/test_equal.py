"""Two ranks train what one does: losses, checkpoints and exports, by ddp and by fsdp2."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer
from tests.recipes.pair_classifier.test_recipe import BERT, SIZE
from tests.recipes.pair_classifier.test_recipe import rows as pairs
from tests.recipes.sft.test_recipe import questions
from tests.several import apart, evaluations, forked, losses, together

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.events import steps
from hotloop.core.storage.files import remove_folder, write_folder
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing
from hotloop.engine.checkpoint.tensor_file import tensor_chunks
from hotloop.engine.checkpoint.tensors import read_all
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request
from hotloop.techniques import get

SHARED = [
    "training.epochs=null",
    "training.warmup_steps=2",
    "training.log_every=1",
    "training.precision=fp32",
    "training.gradient_clip=0.5",
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, corpus):
    """Return the settings of a recipe, with windows that do not divide."""
    folder = tmp_path_factory.mktemp("inputs")

    def model(name, **more):
        tiny_tokenizer.save(made := folder / name, bos=name == "bert")
        return tiny_models.saved(made, name, **SIZE, **more)

    text = ["training.max_steps=8", "training.eval_every_epochs=null", *SHARED]
    return {
        "char-lm": [
            f"data.path={corpus}",
            *("model.layers=2", "model.heads=2", "model.width=16", "model.context=16"),
            *("model.dropout=0", "training.batch_size=6", "training.accumulation=2"),
            *("training.max_steps=40", "training.eval_every_steps=10", *SHARED),
        ],
        "pair-classifier": [
            f"model.name={model('bert', **BERT)}",
            f"data.path={jsonl(folder / 'pairs.jsonl', pairs(241))}",
            *("data.validation_share=0.2", "data.max_length=64", "training.batch_size=13"),
            *("training.accumulation=1", "training.eval_every_steps=4", *text),
        ],
        "expert-sft": [
            f"model.name={model('qwen3')}",
            f"data.path={jsonl(folder / 'questions.jsonl', questions(61))}",
            *("data.validation_share=0.2", "data.max_length=48", "adapter.rank=4"),
            *("adapter.dropout=0", "training.batch_size=7", "training.accumulation=1"),
            *("training.eval_every_steps=4", *text),
        ],
    }


@pytest.fixture(scope="module")
def alone(settings, tmp_path_factory):
    """Return the folder of a recipe's run of one process."""
    made = {}

    def run(recipe):
        if recipe not in made:
            made[recipe] = tmp_path_factory.mktemp("alone") / recipe
            train.train(fresh_request(recipe, settings[recipe]), out=made[recipe])
        return made[recipe]

    return run


@pytest.fixture(scope="module")
def both(settings, preloaded_models, tmp_path_factory):
    """Return the folder of a recipe's run of two ranks that share in a way."""
    made = {}

    def run(recipe, shares):
        if (recipe, shares) not in made:
            two = made[recipe, shares] = tmp_path_factory.mktemp("both") / recipe
            words = (*settings[recipe], "--with", shares, "--out", two)
            forked(preloaded_models, "train", recipe, *words)
        return made[recipe, shares]

    return run


def exported(folder, recipe, out):
    """Return the tensors that `hotloop export` writes, or of hotloop's own model those it loads."""
    if recipe == "char-lm":
        return load_run(folder).model().state_dict()
    form = "hf" if recipe == "pair-classifier" else "peft"
    assert main(["export", str(folder), "--to", form, "--out", str(out)]) == 0
    return {
        f"{path.name}: {name}": tensor
        for path in sorted(out.glob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


@pytest.mark.parametrize(
    ("recipe", "shares"),
    [
        *(("char-lm", "fsdp2"), ("pair-classifier", "ddp"), ("expert-sft", "fsdp2")),
        # make campaign
        pytest.param("char-lm", "ddp", marks=pytest.mark.slow),
        pytest.param("pair-classifier", "fsdp2", marks=pytest.mark.slow),
        pytest.param("expert-sft", "ddp", marks=pytest.mark.slow),
    ],
)
def test_two_ranks_train_what_one_does(recipe, shares, both, alone, tmp_path):
    one, two, most = alone(recipe), both(recipe, shares), get(shares).tolerance
    assert apart(losses(two), losses(one)) <= most
    assert losses(two, rank=1) == losses(two), "each rank logs the loss of all"
    assert apart(evaluations(two), evaluations(one)) <= most
    effects = {e["technique"].partition("(")[0]: e for e in load_run(two).record["effects"]}
    assert effects[shares]["word"] == "in effect"
    whole = read_all(listing(one / "checkpoints")[-1].path)
    parts = read_all(listing(two / "checkpoints")[-1].path)
    assert {n: t.shape for n, t in parts.items()} == {n: t.shape for n, t in whole.items()}
    same = exported(one, recipe, tmp_path / "a"), exported(two, recipe, tmp_path / "b")
    assert same[0].keys() == same[1].keys() != set()
    for name, tensor in same[0].items():
        torch.testing.assert_close(same[1][name], tensor, rtol=1e-4, atol=1e-5)


def test_a_sharded_checkpoint_is_exported_as_the_same_one_of_one_rank(both, tmp_path):
    """The same weights, once as two ranks wrote them and once as one would have."""
    two, one = both("expert-sft", "fsdp2"), tmp_path / "one"
    shutil.copytree(two, one)
    for stored in listing(one / "checkpoints"):
        state = {"state.json": [(stored.path / "state.json").read_bytes()]}
        model = {"model.safetensors": tensor_chunks(read_all(stored.path))}
        assert len(list(stored.path.glob("model-r*.safetensors"))) == 2
        remove_folder(stored.path)
        write_folder(stored.path, {**model, **state})
    sharded = exported(two, "expert-sft", tmp_path / "a")
    plain = exported(one, "expert-sft", tmp_path / "b")
    assert sharded.keys() == plain.keys() != set()
    assert all(torch.equal(sharded[name], plain[name]) for name in plain)


@pytest.mark.slow  # the pairs above have windows that do not divide, too
def test_ranks_that_have_fewer_rows_keep_step(settings, alone, tmp_path):
    """Three ranks on windows of seven rows and fewer: nothing is lost, nothing counts twice."""
    three, one = tmp_path / "three", alone("expert-sft")
    together("train", "expert-sft", *settings["expert-sft"], "--out", three, ranks=3)
    for figure in ("samples", "targets"):
        shares = [taken(three, figure, rank) for rank in range(3)]
        assert [sum(each) for each in zip(*shares, strict=True)] == taken(one, figure)
    assert apart(losses(three), losses(one)) <= get("ddp").tolerance


def taken(folder, figure, rank=0):
    return [getattr(step, figure) for step in steps(RunDir(folder).events(rank))]
