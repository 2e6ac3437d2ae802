import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.config.common import ALIASES
from hotloop.config.layers import COMMAND_LINE, SettingsLayer
from hotloop.config.schema import flatten, settings_of
from hotloop.config.settings import differences, rebuild
from hotloop.core.errors import ConfigError, UsageError
from hotloop.recipes.char_lm.config import (
    CharLmConfig,
    CharModel,
    Diffusion,
    check_char_lm,
    idle_char_lm,
    resolve_char_lm,
)
from hotloop.recipes.char_lm.presets import EXPERIMENTS, PRESETS


def never() -> SettingsLayer:
    raise AssertionError("preset=auto was derived, which imports torch")


def refused(*args: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve_char_lm(args, auto_layer=never)
    return str(caught.value)


def test_the_defaults_are_the_11_million_parameter_model() -> None:
    config = resolve_char_lm([]).config
    assert config == CharLmConfig()
    model = config.model
    assert 12 * model.layers * model.width**2 == pytest.approx(11e6, rel=0.05)
    assert (config.training.max_steps, config.seed, model.context) == (5000, 1337, 256)


def test_importing_the_configuration_loads_no_torch() -> None:
    code = (
        "import sys, hotloop.recipes.char_lm.config as c; c.resolve_char_lm(['preset=cpu']);"
        "sys.exit(bool({'torch', 'numpy', 'omegaconf'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_every_origin_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("training:\n  batch_size: 24\n  lr: 2e-3\nmodel:\n  dropout: 0.1\n")
    resolved = resolve_char_lm(
        ["preset=cpu", "experiment=nanogpt-cpu", "training.batch_size=48"], path, never
    )
    config, origins = resolved.config, resolved.origins
    assert config.training.batch_size == 48
    assert origins["training.batch_size"] == COMMAND_LINE
    assert (config.training.learning_rate, config.model.dropout) == (2e-3, 0.1)
    assert origins["training.learning_rate"] == f"{path}:3"
    assert (config.model.context, config.training.max_steps) == (64, 2000)
    assert origins["model.context"].startswith("experiment nanogpt-cpu (published): nanoGPT")
    assert (config.training.precision, config.data.max_chars) == ("fp32", None)
    assert origins["training.keep"] == "default"


def test_preset_and_experiment_may_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my.json"
    path.write_text(json.dumps({"preset": "rtx4090", "experiment": "nanogpt-cpu"}))
    config = resolve_char_lm(["preset=t4"], path, never).config
    assert (config.preset, config.experiment) == ("t4", "nanogpt-cpu")
    config = resolve_char_lm(["experiment=null"], path, never).config
    assert (config.training.batch_size, config.training.precision) == (192, "bf16")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_resolves(preset: str) -> None:
    resolved = resolve_char_lm([f"preset={preset}"], auto_layer=never)
    assert flatten(resolved.config) | PRESETS[preset].values == flatten(resolved.config)
    assert resolved.requested == {"preset"}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("preset", ["cpu", "h100"])
def test_an_experiment_is_the_same_on_every_gpu(experiment: str, preset: str) -> None:
    config = resolve_char_lm([f"preset={preset}", f"experiment={experiment}"]).config
    alone = resolve_char_lm([f"experiment={experiment}"]).config
    assert flatten(config) | {"preset": "auto"} == flatten(alone)


def test_auto_is_derived_only_when_it_is_in_force_and_every_key_is_good() -> None:
    def auto() -> SettingsLayer:
        return SettingsLayer(
            origin="auto (12 GiB)",
            values={"training.batch_size": 96, "training.accumulation": 4},
        )

    resolved = resolve_char_lm([], auto_layer=auto)
    assert resolved.config.training.batch_size == 96
    assert resolved.origins["training.batch_size"] == "auto (12 GiB)"
    typed = resolve_char_lm(["training.batch_size=10"], auto_layer=auto)
    assert typed.config.training.accumulation == 1
    assert "gave way to training.batch_size=10" in typed.origins["training.accumulation"]
    shorter = resolve_char_lm(["model.context=64"], auto_layer=auto)
    assert shorter.config.training.accumulation == 1
    resolve_char_lm(["preset=t4"], auto_layer=never)
    for bad in ("traning.batch_size=1", "training.batch_size=0", "preset=rtx409"):
        refused(bad)
    with pytest.raises(UsageError):
        resolve_char_lm(["preset"], auto_layer=never)


def test_a_derived_layer_is_held_to_the_schema_too() -> None:
    with pytest.raises(ConfigError, match=r"^auto: training\.batch_size: expected a whole number"):
        resolve_char_lm(
            [], auto_layer=lambda: SettingsLayer(origin="auto", values={"training.batch_size": 0})
        )


def test_the_misspelt_key_of_the_issue() -> None:
    assert refused("traning.batch_size=1") == (
        "command line: unknown key 'traning.batch_size'; did you mean training.batch_size?"
    )


@pytest.mark.parametrize("old", ALIASES)
def test_every_older_spelling_is_taken_and_suggested(old: str) -> None:
    value = (
        "true"
        if "compile" in old
        else "0.5"
        if "lr" in old or "clip" in old
        else "64"
        if "accum" in old
        else "200"
    )
    resolved = resolve_char_lm([f"{old}={value}"])
    assert resolved.renamed == ((old, ALIASES[old], COMMAND_LINE),)
    assert flatten(resolved.config)[ALIASES[old]] == (
        value if value == "true" else pytest.approx(float(value))
    )
    assert f"did you mean {ALIASES[old]}?" in refused(f"{old.partition('.')[2]}={value}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["preset=rtx409"], "expected one of auto, t4, 12gb, 16gb, 24gb, rtx3090, rtx4080s,"),
        (["preset=rtx409"], "did you mean rtx4090?"),
        (["preset=null"], "expected one of auto"),
        (["experiment=nanogpt"], "expected one of nanogpt-cpu or null, got nanogpt; did you mean"),
        (["objective=mlm"], "objective: expected one of next-char, diffusion, got mlm"),
        (["seed=-1"], "seed: expected a whole number from 0 up to 4294967295, got -1"),
    ],
)
def test_names_that_are_none_list_those_that_are(args: list[str], message: str) -> None:
    assert message in refused(*args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["model.width=100"], "model.width=100 (command line) is not divisible by model.heads=6"),
        (["dataset=a"], "dataset=a (command line) is no name of data.sets (known: none; set"),
        (["dataset=all"], "(known: none; set data.sets={NAME: PATH})"),
        (
            ["dataset=shakespear", "data.sets={shakespeare: a.txt}"],
            "(known: shakespeare, all); did you mean shakespeare?",
        ),
        (["data.sets={a: b}"], "say which, dataset=NAME or dataset=all"),
        (["data.sets={a: b}", "dataset=a", "data.path=x"], "give one of them"),
        (["training.accumulation=7"], "is not divisible by training.accumulation=7"),
        (
            ["diffusion.transition=uniform"],
            "diffusion.transition=uniform (command line) has no effect with objective=next-char; "
            "leave it out, or set objective=diffusion",
        ),
    ],
)
def test_contradictions_are_refused(args: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_char_lm(args)
    assert message in str(caught.value)


def test_what_a_file_says_of_another_objective_is_told_and_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("diffusion: {transition: uniform, sigma_min: 1e-3}")
    resolved = resolve_char_lm([], path)
    assert idle_char_lm(resolved.config, resolved.origins) == {
        "diffusion.transition": f"diffusion.transition=uniform ({path}:1) has no effect with "
        "objective=next-char",
        "diffusion.sigma_min": f"diffusion.sigma_min=0.001 ({path}:1) has no effect with "
        "objective=next-char",
    }
    resolved = resolve_char_lm(["objective=diffusion"], path)
    assert idle_char_lm(resolved.config, resolved.origins) == {}
    assert resolved.config.diffusion == Diffusion(transition="uniform", sigma_min=1e-3)


def test_named_sets() -> None:
    args = ["data.sets={shakespeare: a.txt, b: b.txt}"]
    assert resolve_char_lm([*args, "dataset=b"]).config.dataset == "b"
    assert resolve_char_lm([*args, "dataset=all"]).config.dataset == "all"
    assert resolve_char_lm([*args, "data.path=c.txt"]).config.dataset is None


def test_a_config_made_in_python_is_checked() -> None:
    check_char_lm(CharLmConfig())
    with pytest.raises(ConfigError, match=r"^model\.width=385 is not divisible by model\.heads=6$"):
        check_char_lm(CharLmConfig(model=CharModel(width=385)))


def test_resume_compares_only_what_was_asked_for(tmp_path: Path) -> None:
    saved = json.loads(json.dumps(flatten(resolve_char_lm(["training.batch_size=12"]).config)))
    assert (
        differences(
            saved, resolve_char_lm.requested(["training.batch_size=12", "training.lr=1e-3"])
        )
        == []
    )
    path = tmp_path / "my.yaml"
    path.write_text("training: {batch_size: 16}")
    assert differences(saved, resolve_char_lm.requested([], path)) == [
        "training.batch_size: run has 12, asked 16"
    ]


def test_what_gave_way_is_resumed_as_it_ran() -> None:
    config = resolve_char_lm(["training.epochs=2", "training.eval_every_epochs=1"]).config
    assert rebuild(CharLmConfig, json.loads(json.dumps(flatten(config))), "run.json") == config


def test_every_setting_can_be_typed_as_it_is_shown() -> None:
    resolved = resolve_char_lm(["preset=cpu", "training.max_time=11h"])
    shown = [f"{row.key}={row.value}" for row in resolved.rows()]
    assert len(shown) == len(settings_of(CharLmConfig))
    assert resolve_char_lm(shown).config == resolved.config


@pytest.mark.parametrize(
    "line",
    ["_target_: os.system", "__class__: x", "training: {__init__: x}", "model: {auto_map: x}",
     "trust_remote_code: true", "defaults: [x]", "hydra: {run: {dir: /tmp}}"],
)  # fmt: skip
def test_hostile_keys_are_unknown_keys(line: str, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(line)
    with pytest.raises(ConfigError, match=r"my\.yaml:1: unknown key"):
        resolve_char_lm([], path, never)
