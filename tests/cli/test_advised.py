"""What a message advises must exist where it is read: options of its command, keys of its recipe.

Messages are the string constants of the source that are no docstrings. An option that stands after
"hotloop VERB" is that verb's; another one is of the verbs that its module speaks for.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

import hotloop
from hotloop.cli.main import VERBS, main
from hotloop.config.schema import flatten
from hotloop.core.errors import ConfigError, DataError
from hotloop.data.readers.advised_options import fields, said
from hotloop.jobs.request import fresh_request
from hotloop.recipes.pair_classifier.rows import SAID as PAIR
from hotloop.recipes.registry import RECIPES
from hotloop.recipes.sft.config import SAID as SFT

SOURCE = Path(hotloop.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
# A command, and what may stand between it and its option.
COMMAND = re.compile(r"hotloop ((?:data )?[a-z]+)(?=([^.;:,()]*))")
# Of other programs: torchrun, docker, Python's crew of workers, and an option that a script gets.
FOREIGN = {"--nproc-per-node", "--nnodes", "--max-restarts", "--shm-size", "--ipc", "--look"}
FOREIGN |= {"--index-url", "--cfg", "--resolve"}  # of pip and Hydra
FOREIGN |= {"--debug", "--help", "--version"}
TRAINING = ("train", "doctor", "tune")  # what takes a recipe and techniques
DATA = ("data tokenize", "data stats")
SPEAKS_FOR = {
    "cli/arguments/baseline.py": ("doctor",),
    "cli/bench_compare.py": ("bench",),
    "core/fail_on.py": ("doctor",),
    "diagnosis/baseline.py": ("doctor",),
    "diagnosis/regressions.py": ("doctor",),  # the longest beginning of the path counts
    "bench/": ("bench",),
    "bench/whole_run.py": ("train",),
    "cleanup/": ("clean",),
    "cli/arguments/recipe.py": (*TRAINING, "bench"),
    "cli/check_manifest.py": ("train",),
    "cli/monitor_compare.py": ("monitor",),
    "cli/data.py": DATA,
    "cli/arguments/data.py": DATA,
    "cli/data_find.py": ("data find",),
    "cli/data_stats.py": ("data stats",),
    "cli/data_tokenize.py": ("data tokenize",),
    "cli/terminal/diagnosis.py": ("doctor",),
    "cli/rules.py": ("doctor",),
    "cli/arguments/script.py": ("doctor",),
    "cli/arguments/tuning.py": ("tune",),
    "cli/tune_recipe.py": ("tune",),
    "cli/terminal/tune_screen.py": ("run", "train"),
    "core/storage/rundir.py": ("train",),
    "data/": DATA,
    "data/tokenising/ray_pool.py": ("data tokenize",),
    "data/discovery/folder_scan.py": ("data find",),
    "data/tokenising/plan.py": DATA,
    "data/tokenising/ray_job.py": ("data tokenize",),
    "data/statistics/token_statistics.py": ("data stats",),
    "data/tokenising/tokenize.py": ("data tokenize",),
    "jobs/train.py": ("train",),
    "jobs/run.py": ("train",),
    "export/pretrained.py": ("export",),
    "jobs/decide.py": TRAINING,
    "jobs/forecast/memory_fit.py": TRAINING,
    "api.py": ("doctor", "tune"),
    "monitor/": ("monitor",),
    "jobs/refusals.py": ("train",),
    "jobs/forecast/limits.py": ("train",),
    "recipes/building/sampling_options.py": ("sample",),
    "recipes/pair_classifier/rows.py": ("data tokenize",),
    "recipes/pair_classifier/class_table.py": ("predict",),
    "recipes/task_router/rows.py": ("data tokenize",),
    "recipes/sft/config.py": ("data tokenize",),
    "rehearse/": ("rehearse",),
    "report/": ("report",),
    "recipes/task_router/report_section.py": ("predict",),
    "report/sentences.py": ("run", "doctor"),
    "jobs/request.py": TRAINING,
    "rules/": ("doctor",),
    "rules/planned_run/": ("train",),
    "diagnosis/script_plan.py": ("run",),
    "engine/": ("train",),
    "tuning/": ("tune",),
    "tuning/script_target.py": ("doctor",),
}
# Said by a module that serves other commands as well, where only these can come to it.
ONLY = {
    ("data/tokenising/plan.py", "--pack"): ("data tokenize",),
    ("api.py", "--checkpoint"): ("sample", "predict", "export"),
    ("api.py", "--declared"): ("predict",),
    ("jobs/request.py", "--out"): ("train",),
    ("cli/data.py", "--root"): ("data find",),
    ("cli/data.py", "--out"): ("data tokenize",),
    ("monitor/assess.py", "--measure-peak"): ("train",),
    ("report/figures.py", "--measure-peak"): ("train",),
}
SECTIONS = {  # keys of a module that speaks of some recipes alone
    "recipes/building/text_rungs.py": ("chat-sft", "expert-sft"),
    "recipes/building/pretrained.py": ("pair-classifier", "chat-sft", "expert-sft", "task-router"),
    "bench/whole_run.py": ("char-lm",),
    "cli/predict.py": ("task-router",),
    "data/tokenising/char_vocabulary.py": ("char-lm",),
    "data/sampling/labelled_rows.py": ("pair-classifier",),
    "data/sampling/text_rows.py": ("chat-sft", "expert-sft"),
    "data/tokenising/char_corpus.py": ("char-lm",),
    "jobs/forecast/memory_fit.py": ("chat-sft", "expert-sft"),
    "models/backbone.py": ("pair-classifier", "chat-sft", "expert-sft", "task-router"),
    "config/derive_plan.py": ("char-lm",),
    "recipes/building/declared_code.py": ("task-router",),
    "recipes/sft/manifest": ("expert-sft",),
}
for recipe in RECIPES.values():
    folder = f"recipes/{recipe.package.rpartition('.')[2]}/"
    SECTIONS[folder] = (*SECTIONS.get(folder, ()), recipe.name)
    for verb, path in (("sample", recipe.sample), ("predict", recipe.predict)):
        if path:
            SPEAKS_FOR[f"{folder}{path.partition(':')[0]}.py"] = (verb,)
# Of rules that judge planned runs, and others that speak of one recipe in some of their words.
ROWS = ("pair-classifier", "chat-sft", "expert-sft", "task-router")
SAID_OF = {
    ("diagnosis/planned_data.py", "data.max_chars"): ("char-lm",),
    ("rules/configuration/c4_requested_not_effective.py", "model.context"): ("char-lm",),
    ("rules/data_content/x1_repeated_data.py", "data.group"): ("pair-classifier",),
    ("rules/data_content/x2_not_what_you_think.py", "data.text_a"): ("pair-classifier",),
    ("rules/data_content/x2_not_what_you_think.py", "data.text_b"): ("pair-classifier",),
    ("rules/data_content/x2_not_what_you_think.py", "data.max_length"): ("pair-classifier",),
    ("rules/data_content/x3_length.py", "data.max_length"): ROWS,
    ("rules/data_content/x5_dropped_rows.py", "data.max_chars"): ("char-lm",),
    ("rules/data_loading/d22_pad_waste.py", "data.layout"): ROWS[:3],
    ("rules/data_loading/d22_pad_waste.py", "data.packing"): ("chat-sft", "expert-sft"),
    ("rules/planned_run/r2_small_validation.py", "data.valid_path"): (
        "pair-classifier",
        "chat-sft",
        "expert-sft",
    ),
    ("rules/planned_run/r10_rare_class.py", "data.sizes"): ("task-router",),
}
# Lists of keys of all recipes, old spellings; and what is code and no key.
NO_ADVICE = {
    "config/common.py",
    "config/text_common.py",
    "jobs/request.py",
}
NO_ADVICE |= {"report/compare.py"}
CODE = re.compile(
    r"(model|data|router)\.(safetensors|to|parameters|no_sync|requires_grad_|gradient_)"
)


@cache
def constants(path):
    """Return the strings of a file that are no docstrings, an f-string as one, and their lines."""
    return list(strings(path))


def strings(path):
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


# The end of a string and the beginning of the next, which Python reads as one.
ADJACENT = re.compile(r"""["']\s*(?:#.*\n\s*)?[rbfRBF]*["']""")
FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


def naming(pattern):
    """Return the files in one of whose strings the pattern occurs; parse those that have it."""
    return [
        name
        for name, path in FILES.items()
        if pattern.search(ADJACENT.sub("", path.read_text()))
        and any(pattern.search(text) for text, _ in constants(path))
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
    if Path(name).parent.name == "cli" and Path(name).stem in VERBS:
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
            assert verbs, (
                f"{name}:{line} names {option}, and no command is known that says it: add the "
                "verb to VERBS of cli/main.py, or the file to SPEAKS_FOR of this test"
            )
            wrong += [(line, verb, option) for verb in verbs if option not in options(verb)]
    assert not wrong, f"{name}: no such option: {wrong}"


# What only an option of `hotloop data` can bring about: Ray, a back end that was named, a folder.
DATA_ALONE = {
    *("ray_pool.py", "ray_job.py", "encode.py", "token_statistics.py", "folder_scan.py"),
    "advised_options.py",
}


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
    of_script = name.startswith("rules/") and "before_run=" not in FILES[name].read_text()
    if name in NO_ADVICE or of_script or "_presets" in name:
        return
    known = [begin for begin in SECTIONS if name.startswith(begin)]
    recipes = SECTIONS[max(known, key=len)] if known else tuple(RECIPES)
    wrong = []
    for text, line in constants(FILES[name]):
        if text.startswith("hotloop."):
            continue
        for key in KEY.findall(text):
            if not CODE.match(key):
                of = SAID_OF.get((name, key), recipes)
                wrong += [(line, key, r) for r in of if key not in SCHEMAS[r]]
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
    assert fields(["text_a"], SFT) is None


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
        (
            [{"text": "a"}] * 4,
            ("data.template=chatml",),
            "data.template is for chats and answers",
        ),
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
