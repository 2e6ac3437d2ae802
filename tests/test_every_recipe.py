"""Each recipe with its default settings, under each command: whatever comes, it is no traceback."""

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.cli.main import BUG, main
from hotloop.core.gpu_specs import GPUS
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.recipes.registry import RECIPES
from hotloop.tuning.fit_other_gpu import MODES, fits

WORDS = ["quick", "brown", "fox", "jumps", "lazy", "dog", "wizard", "vex"]
EVERY = pytest.mark.parametrize("recipe", RECIPES)
TINY = ("model.layers=1", "model.heads=2", "model.width=16", "model.context=16")
# One block: what is asserted here goes by no number of them.
SMALLER = {"vocab_size": 400, "max_position_embeddings": 600, "num_hidden_layers": 1}
SHORT = ("epochs=null", "max_steps=3")
# Of several runs one is named: what trains one alone.
ONE = {"task-router": ("phase=1",)}


class Asked(dict):
    """What a user types at least, by recipe."""

    def __missing__(self, recipe):
        pytest.fail(f"say in `asked` of this file what a user types at least to train {recipe}")


@pytest.fixture(scope="module")
def asked(tmp_path_factory, corpus):
    """Return what a user types at least, by recipe."""
    folder = tmp_path_factory.mktemp("every")
    for name, kind in (("encoder", "bert"), ("decoder", "qwen3")):
        tiny_tokenizer.save(folder / name, bos=kind == "bert")
        tiny_models.saved(folder / name, kind, **SMALLER)
    texts = [f"{WORDS[at % 8]} {WORDS[at // 8 % 8]}" for at in range(48)]
    told = [{"prompt": f"what is {text}", "response": text} for text in texts]
    answers = jsonl(folder / "rows.jsonl", told)
    pairs = jsonl(
        folder / "pairs.jsonl",
        [{"premise": t, "hypothesis": "dog", "label": at % 2} for at, t in enumerate(texts)],
    )
    tasks = folder / "tasks"
    tasks.mkdir()
    jsonl(tasks / "sentiment.jsonl", [{"text": t, "label": n % 2} for n, t in enumerate(texts)])
    jsonl(tasks / "translation.jsonl", [{"en": text, "fr": f"le {text}"} for text in texts])
    decoder = f"model.name={folder / 'decoder'}"
    files = f'data.files={{"translation": "{tasks / "translation.jsonl"}"}}'
    return Asked(
        {
            "char-lm": [f"data.path={corpus}", *TINY],
            "pair-classifier": [f"model.name={folder / 'encoder'}", f"data.path={pairs}"],
            "chat-sft": [decoder, f"data.path={answers}"],
            "expert-sft": [decoder, f"data.path={answers}"],
            "task-router": [decoder, f"data.path={tasks}", files],
        }
    )


@EVERY
def test_a_forecast_for_every_gpu_is_made(asked, recipe):
    few = ("training.batch_size=2", "training.accumulation=1")  # each size is a forecast
    request = fresh_request(recipe, [*asked[recipe], *ONE.get(recipe, ()), *few])
    parts = assemble(request, engine.silent, lambda: None)
    for gpu in GPUS:
        found = fits(parts, gpu)
        assert found, gpu.name
        assert all(list(fit.peak_bytes) == list(MODES) for fit in found)
        whole = request.config.training.batch_size
        assert all(fit.micro_batch * fit.accumulation == whole for fit in found)


@pytest.fixture(scope="module")
def trained(asked, tmp_path_factory):
    """Return what trains three steps of a recipe by the command, once: the folder of the run."""
    made = {}

    def train(recipe):
        if recipe in made:
            return made[recipe]
        out = tmp_path_factory.mktemp(recipe) / "run"
        parts = ["training"]
        if recipe == "task-router":
            parts += ["router_training", "joint_training"]
        short = [f"{part}.{setting}" for part in parts for setting in SHORT]
        assert main(["train", recipe, *asked[recipe], *short, "--out", str(out)]) == 0
        made[recipe] = out / "phase-3" if recipe == "task-router" else out
        return made[recipe]

    return train


@EVERY
@pytest.mark.parametrize(
    "verb",
    [
        ("sample", "RUN", "--prompt", "fox", "--length", "3"),
        ("predict", "RUN"),
        ("export", "RUN", "--to", "hf", "--out", "OUT"),
        ("export", "RUN", "--to", "merged", "--out", "OUT"),
        ("export", "RUN", "--to", "peft", "--out", "OUT"),
        ("report", "RUN", "--out", "OUT"),
        ("doctor", "RUN"),
        ("checkpoints", "RUN"),
        ("train", "--resume", "RUN"),
    ],
    ids=lambda verb: "-".join(word for word in verb if word.islower() and word.isalpha()),
)
def test_a_trained_run_can_be_used_or_it_is_said_why_not(trained, recipe, verb, tmp_path, capsys):
    run = trained(recipe)
    capsys.readouterr()
    words = {"RUN": str(run), "OUT": str(tmp_path / "out")}
    code = main([words.get(word, word) for word in verb])
    told = capsys.readouterr().err
    assert code != BUG, told
    assert "Traceback" not in told
    assert code == 0 or told.startswith("hotloop: ")


@EVERY
def test_the_doctor_looks_at_a_recipe(asked, recipe, capsys):
    code = main(["doctor", recipe, *asked[recipe], *ONE.get(recipe, ()), "--steps", "2", "-q"])
    assert code != BUG, capsys.readouterr().err
