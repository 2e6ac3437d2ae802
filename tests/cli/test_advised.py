"""What a message advises must exist where it is read: options of its command, keys of its recipe.

Messages are the string constants of the source that are no docstrings. An option that stands after
"hotloop VERB" is that verb's; another one is of the verbs that its module speaks for.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.data.test_tokenise import jsonl
from tests.golden import tiny_models, tiny_tokenizer

import hotloop
from hotloop.cli.main import VERBS, main
from hotloop.core.errors import ConfigError, DataError
from hotloop.data.advice import fields, said
from hotloop.recipes.pair_rows import SAID as PAIR
from hotloop.recipes.registry import RECIPES
from hotloop.recipes.schema import flatten
from hotloop.recipes.sft_config import SAID as SFT
from hotloop.request import fresh_request

SOURCE = Path(hotloop.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
# A command, and what may stand between it and its option.
COMMAND = re.compile(r"hotloop ((?:data )?[a-z]+)(?=([^.;:,()]*))")
# Of other programs: torchrun, docker, Python's crew of workers, and an option that a script gets.
FOREIGN = {"--nproc-per-node", "--nnodes", "--max-restarts", "--shm-size", "--ipc", "--look"}
FOREIGN |= {"--debug", "--help", "--version"}
TRAINING = ("train", "doctor", "tune")  # what takes a recipe and techniques
DATA = ("data tokenize", "data stats")
SPEAKS_FOR = {  # the longest beginning of the path counts
    "bench/": ("bench",),
    "bench/whole.py": ("train",),
    "checks/": ("train",),
    "cleaning/": ("clean",),
    "cli/asked.py": (*TRAINING, "bench"),
    "cli/data.py": DATA,
    "cli/dataasked.py": DATA,
    "cli/datafind.py": ("data find",),
    "cli/datastats.py": ("data stats",),
    "cli/datatokenize.py": ("data tokenize",),
    "cli/diagnosis.py": ("doctor",),
    "cli/rules.py": ("doctor",),
    "cli/script.py": ("doctor",),
    "cli/tunerecipe.py": ("tune",),
    "cli/trials.py": ("run", "train"),
    "core/rundir.py": ("train",),
    "data/": DATA,
    "data/clustered.py": ("data tokenize",),
    "data/folders.py": ("data find",),
    "data/preparing.py": DATA,
    "data/rayjob.py": ("data tokenize",),
    "data/stats.py": ("data stats",),
    "data/tokenise.py": ("data tokenize",),
    "engine.py": ("train",),
    "execute.py": ("train",),
    "exporting.py": ("export",),
    "forecasting.py": TRAINING,
    "library.py": ("doctor", "tune"),
    "monitor/": ("monitor",),
    "planning.py": ("train",),
    "preflight.py": ("train",),
    "recipes/char_samples.py": ("sample",),
    "recipes/pair_predictions.py": ("predict",),
    "recipes/pair_rows.py": ("data tokenize",),
    "recipes/router_rows.py": ("data tokenize",),
    "recipes/sft_config.py": ("data tokenize",),
    "recipes/sft_samples.py": ("sample",),
    "report/": ("report",),
    "report/routing.py": ("predict",),
    "report/sentences.py": ("run", "doctor"),
    "request.py": TRAINING,
    "rules/": ("doctor",),
    "scriptplan.py": ("run",),
    "training/": ("train",),
    "tuning/": ("tune",),
    "tuning/scripttarget.py": ("doctor",),
}
# Said by a module that serves other commands as well, where only these can come to it.
ONLY = {
    ("data/preparing.py", "--pack"): ("data tokenize",),
    ("library.py", "--checkpoint"): ("sample", "predict", "export"),
    ("library.py", "--declared"): ("predict",),
    ("request.py", "--out"): ("train",),
    ("cli/data.py", "--root"): ("data find",),
    ("cli/data.py", "--out"): ("data tokenize",),
    ("monitor/assess.py", "--measure-peak"): ("train",),
    ("report/figures.py", "--measure-peak"): ("train",),
}
SECTIONS = {  # keys of a module that speaks of some recipes alone
    "bench/rows.py": ("chat-sft", "expert-sft"),
    "bench/whole.py": ("char-lm",),
    "checks/characters.py": ("char-lm",),
    "checks/data.py": ("char-lm",),  # in its words for windows of characters
    "checks/labels.py": ("pair-classifier",),
    "checks/rows.py": ("chat-sft", "expert-sft"),
    "checks/tasks.py": ("task-router",),
    "checks/texts.py": ("chat-sft", "expert-sft"),
    "cli/predict.py": ("task-router",),
    "data/chars.py": ("char-lm",),
    "data/labelled.py": ("pair-classifier",),
    "data/texts.py": ("chat-sft", "expert-sft"),
    "data/tokens.py": ("char-lm",),
    "forecasting.py": ("chat-sft", "expert-sft"),
    "models/backbone.py": ("pair-classifier", "chat-sft", "expert-sft", "task-router"),
    "recipes/auto.py": ("char-lm",),
    "recipes/char_": ("char-lm",),
    "recipes/declared.py": ("task-router",),
    "recipes/manifest": ("expert-sft",),
    "recipes/pair_": ("pair-classifier",),
    "recipes/router_": ("task-router",),
    "recipes/sft": ("chat-sft", "expert-sft"),
    "recipes/task_router": ("task-router",),
}
# Lists of keys of all recipes, old spellings; and what is code and no key.
NO_ADVICE = {"recipes/deciding.py", "recipes/sections.py", "recipes/text_sections.py", "request.py"}
NO_ADVICE |= {"report/compare.py"}
CODE = re.compile(
    r"(model|data|router)\.(safetensors|to|parameters|no_sync|requires_grad_|gradient_)"
)


def constants(path):
    """Yield the strings of a file that are no docstrings, an f-string as one, and their lines."""
    tree = ast.parse(path.read_text())
    skip = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            skip.add(id(node.body[0].value))
        if isinstance(node, ast.JoinedStr):
            skip |= {id(value) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield "".join(map(str, parts)), node.lineno
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skip
        ):
            yield node.value, node.lineno


FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


def naming(pattern):
    """Return the files in one of whose strings the pattern occurs."""
    return [
        n for n, path in FILES.items() if any(pattern.search(text) for text, _ in constants(path))
    ]


@cache
def options(verb):
    """Return the options of a verb, as its help shows them."""
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*verb.split(), "--help"])
    return set(OPTION.findall(out.getvalue()))


def speaks_for(name):
    if name.startswith("cli/") and Path(name).stem in VERBS:
        return (Path(name).stem,)
    known = [begin for begin in SPEAKS_FOR if name.startswith(begin)]
    return SPEAKS_FOR[max(known, key=len)] if known else None


@pytest.mark.parametrize("verb", ["train", "tune", "data tokenize", "doctor", "run"])
def test_the_help_of_a_verb_names_its_options(verb):
    assert {"--out", "--json"} <= options(verb)


@pytest.mark.parametrize("name", naming(OPTION))
def test_an_option_that_is_advised_is_one_of_the_command(name):
    wrong = []
    for text, line in constants(FILES[name]):
        named = list(COMMAND.finditer(text))
        if OPTION.fullmatch(text):
            continue  # the option itself, where it is added or looked for
        for found in OPTION.finditer(text):
            option = found.group()
            if option in FOREIGN:
                continue
            before = [
                each[1]
                for each in named
                if each.end() <= found.start() < each.end(2)
                and " and " not in text[each.end() : found.start()]
            ]
            verbs = [verb for verb in before[-1:] if verb in VERBS or verb.startswith("data ")]
            verbs = verbs or ONLY.get((name, option)) or speaks_for(name)
            assert verbs, f"{name}:{line} names {option}: which command says it? (SPEAKS_FOR)"
            wrong += [(line, verb, option) for verb in verbs if option not in options(verb)]
    assert not wrong, f"{name}: no such option: {wrong}"


# What only an option of `hotloop data` can bring about: Ray, a back end that was named, a folder.
DATA_ALONE = {"clustered.py", "rayjob.py", "encode.py", "stats.py", "folders.py", "advice.py"}


@pytest.mark.parametrize("name", [n for n in naming(OPTION) if n.startswith("data/")])
def test_what_recipes_read_as_well_names_an_option_through_the_words_of_its_command(name):
    if Path(name).name in DATA_ALONE:
        return
    asked = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("said", "_in_brackets"):
            asked |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    named = {text for text, _ in constants(FILES[name]) if OPTION.search(text)}
    named -= {option for option in named if option in FOREIGN}
    assert named <= asked


SCHEMAS = {
    name: {*flatten(recipe.resolve.schema()), *recipe.resolve.aliases}
    for name, recipe in RECIPES.items()
}
NAMES = sorted({key.partition(".")[0] for keys in SCHEMAS.values() for key in keys if "." in key})
KEY = re.compile(rf"(?<![\w.])(?:{'|'.join(NAMES)})\.[a-z][a-z_0-9]*")


@pytest.mark.parametrize("name", naming(KEY))
def test_a_key_that_is_advised_is_one_of_the_recipe(name):
    if name in NO_ADVICE or name.startswith("rules/") or "_presets" in name:
        return
    known = [begin for begin in SECTIONS if name.startswith(begin)]
    recipes = SECTIONS[max(known, key=len)] if known else tuple(RECIPES)
    wrong = []
    for text, line in constants(FILES[name]):
        if text.startswith("hotloop."):
            continue
        for key in KEY.findall(text):
            if not CODE.match(key):
                wrong += [(line, key, r) for r in recipes if key not in SCHEMAS[r]]
    assert not wrong, f"{name}: no such key: {wrong}"


GIVEN = ["model.name=somewhere", "data.path=rows.jsonl"]
TABLES = {"pair-classifier": PAIR, "chat-sft": SFT, "expert-sft": SFT}


@pytest.mark.parametrize("recipe", TABLES)
def test_what_stands_for_an_option_is_a_setting_that_the_recipe_takes(recipe):
    for option, setting in TABLES[recipe].items():
        for word in OPTION.findall(option):
            assert word in options("data tokenize")
        key, sign, value = setting.partition("=")
        assert key in SCHEMAS[recipe]
        if sign:
            request = fresh_request(recipe, [*GIVEN, f"{key}={value}"])
            assert str(flatten(request.config)[key]).lower() == value.lower()


def test_a_command_without_words_for_something_advises_nothing():
    assert said("--bad skip", None) == "--bad skip"
    assert said("--bad skip", {}) is None
    assert fields(["prompt", "response"], None) == "--fields prompt=KEY,response=KEY"
    assert fields(["prompt", "response"], SFT) == "data.prompt=KEY data.response=KEY"
    assert fields(["input"], SFT) is None


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, kind in (("encoder", "bert"), ("decoder", "qwen3")):
        tiny_tokenizer.save(folder / name, bos=kind == "bert")
        tiny_models.saved(folder / name, kind, vocab_size=400)
    return folder


GOOD = {"prompt": "the quick fox", "response": "jumps"}
BAD_ROWS = {
    "chat-sft": [GOOD, {"prompt": 3, "response": "a"}] * 8,
    "expert-sft": [GOOD, {"prompt": 3, "response": "a"}] * 8,
    "pair-classifier": [{"text": "a fox", "label": 0}, {"text": 4, "label": 1}] * 8,
}


@pytest.mark.parametrize("recipe", BAD_ROWS)
def test_what_is_advised_of_bad_rows_makes_the_recipe_read_them(recipe, models, tmp_path):
    from hotloop.core.env import ENV

    model = models / ("encoder" if recipe == "pair-classifier" else "decoder")
    rows = jsonl(tmp_path / "rows.jsonl", BAD_ROWS[recipe])
    if recipe == "pair-classifier":
        jsonl(rows, [*BAD_ROWS[recipe], {"text": "a dog", "label": 1}, {"text": "b", "label": 1}])
    typed = [f"model.name={model}", f"data.path={rows}", "data.max_length=32"]

    def prepare(*more):
        request = fresh_request(recipe, [*typed, *more])
        return request.recipe.load().prepare_data(request.config, cache=ENV.cache / "tokens")

    with pytest.raises(DataError, match="bad rows") as told:
        prepare()
    assert not OPTION.search(str(told.value)), "train has no such option"
    (advice,) = re.findall(r"data\.\w+=\w+", str(told.value))
    assert prepare(advice)


def test_of_what_cannot_be_left_out_nothing_is_advised(models, tmp_path):
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    jsonl(tasks / "sentiment.jsonl", [{"text": "a fox", "label": 0}, {"text": 5, "label": 1}] * 3)
    typed = [f"model.name={models / 'encoder'}", f"data.path={tasks}", "phase=1"]
    typed.append("data.max_length=32")
    request = fresh_request("task-router", typed)
    with pytest.raises(DataError, match="bad rows") as told:
        request.recipe.load().prepare_data(request.config, cache=tmp_path / "cache")
    assert not OPTION.search(str(told.value))
    assert str(told.value).endswith("correct them")


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([{"query": "a", "reply": "b"}] * 4, (), "data.prompt=KEY data.response=KEY"),
        ([{"prompt": "a", "reply": "b"}] * 4, ("data.prompt=prompt",), "data.response=KEY"),
        ([GOOD] * 4, ("data.template=chatml",), "data.template is for chat rows"),
    ],
)
def test_rows_that_are_read_otherwise_are_told_in_settings(models, tmp_path, rows, more, said):
    file = jsonl(tmp_path / "rows.jsonl", rows)
    typed = [f"model.name={models / 'decoder'}", f"data.path={file}", "data.max_length=32", *more]
    request = fresh_request("chat-sft", typed)
    with pytest.raises((DataError, ConfigError)) as told:
        request.recipe.load().prepare_data(request.config, cache=tmp_path / "cache")
    assert said in str(told.value)
    assert not OPTION.search(str(told.value))
