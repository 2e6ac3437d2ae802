import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.golden import tiny_tokenizer

from hotloop.cli.main import main
from hotloop.config.schema import Plain
from hotloop.core.errors import ConfigError
from hotloop.recipes.sft.manifest_dialects import Dialect, Meaning, dialect_of
from hotloop.recipes.sft.manifest_fields import FIELDS
from hotloop.recipes.sft.manifests import Manifest, checked_manifest, expand

MARKS = {"sections": "base_models[0].name", "axolotl": "datasets[0].path", "trainer": "output_dir"}
WORDS = {"rope", "mark", "inside", "idle", "other", "data", "model", "token", "refused", "default"}
ROWS = ("model.path=/m", "data.path=/d")


def written(folder: Path, text: str | dict[str, Any], name: str = "m.yml") -> Path:
    path = folder / name
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=0))
    return path


def checked(folder: Path, text: str | dict[str, Any], *typed: str) -> Manifest:
    name = "m.yml" if isinstance(text, str) else "m.json"
    return checked_manifest(written(folder, text, name), [*ROWS, *typed])


def words(manifest: Manifest) -> dict[str, str]:
    return {answer.item.key: answer.word for answer in manifest.answers}


def whys(manifest: Manifest) -> dict[str, str]:
    return {answer.item.key: answer.why for answer in manifest.answers}


def lines(name: str) -> list[list[str]]:
    text = resources.files("hotloop.recipes.sft").joinpath("dialects", f"{name}.tsv").read_text()
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", MARKS)
def test_every_line_of_a_table_means_something(name: str) -> None:
    keys = set()
    for key, outcome, values, why in lines(name):
        kind = outcome if outcome in ("default", "mark", "inside") else "meaning"
        assert (key, kind) not in keys
        keys.add((key, kind))
        if not outcome.startswith("="):
            assert outcome in WORDS
            assert why or outcome in ("other", "data", "mark", "inside", "rope")
            continue
        field = FIELDS[outcome[1:]]
        for value in (pair.partition("=")[2] for pair in values.split()):
            if value not in ("", "!"):
                assert field.read(Plain(value)) is not None


@pytest.mark.parametrize(("name", "key"), MARKS.items())
def test_a_dialect_is_known_by_its_keys(name: str, key: str) -> None:
    assert dialect_of([key]).name == name


def test_the_short_form_has_the_trainers_keys_too() -> None:
    assert dialect_of(["lora_r"]).name == "short"
    meaning = dialect_of(["lora_r"]).meaning("load_best_model_at_end")
    assert meaning is not None
    assert meaning.outcome == "idle"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("training.learning_rate", "learning_rate"),
        ("model.model_name_or_path", "model"),
        ("model.name", "model"),
        ("lora.r", "rank"),
        ("lora.target_modules", "target_modules"),
        ("optimizer.name", None),
        ("eval.batch_size", None),
        ("model.description", None),
    ],
)
def test_arguments_in_sections_are_found_where_their_section_is_known(
    key: str, name: str | None
) -> None:
    meaning = dialect_of(["output_dir"]).meaning(key)
    assert (meaning and meaning.name) == name


SECTIONS: dict[str, Any] = {
    "name": "sql",
    "_comment": "x",
    "base_models": [
        {
            "name": "C:/models/x",
            "quantization": "int4",
            "prompt_template": "chatml",
            "rope_scaling": {"factor": 8.0},
            "adapters": [{"type": "dora", "r": 12, "sha256": ""}],
        }
    ],
    "routing": {"keywords": ["sql"]},
    "training": {
        "dataset": {
            "path": "datasets/train.jsonl",
            "validation_path": "datasets/valid.jsonl",
            "streaming": False,
            "field_mapping": {"instruction": "question", "output": "answer"},
        },
        "config": {
            "adapter_type": "dora",
            "rank": 12,
            "epochs": 1.5,
            "batch_size": 2,
            "gradient_accumulation_steps": 45,
            "activation_checkpointing": "attention_only",
            "use_unsloth": True,
            "save_total_limit": None,
        },
        "decoding": {"top_p": 0.8},
    },
}


def test_a_manifest_with_sections_needs_no_other_file(tmp_path: Path) -> None:
    found = checked(tmp_path, SECTIONS)
    assert found.problems == []
    assert found.layer.values == {
        "adapter.method": "dora",
        "adapter.quantization": "nf4",
        "adapter.rank": 12,
        "data.instruction": "question",
        "data.output": "answer",
        "data.template": "chatml",
        "model.checkpointing": "full",
        "training.accumulation": 45,
        "training.batch_size": 90,
        "training.epochs": 1.5,
        "training.max_steps": None,
    }
    assert dict(found.others) == {
        "base_models[0].adapters[0].sha256": "",
        "routing.keywords": ["sql"],
        "training.decoding.top_p": 0.8,
    }
    told = whys(found)
    assert told["_comment"] == "keys that begin with _ are comments"
    assert told["training.config.rank"] == "base_models[0].adapters[0].r (line 15) says it too"
    assert told["3 keys"] == (
        "base_models[].adapters[].sha256, routing, training.decoding: kept in the run folder, but"
        " for secrets"
    )


def test_without_a_folder_a_path_of_windows_is_refused(tmp_path: Path) -> None:
    found = checked_manifest(written(tmp_path, SECTIONS, "m.json"), ["data.path=/d"])
    (problem,) = found.problems
    assert "base_models[0].name='C:/models/x': it is a path of Windows" in problem
    assert "give model.name=FOLDER on the command line" in problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_models": [{"name": "a"}, {"name": "b"}]}, "one run trains one model"),
        ({"base_models": [{"adapters": [{"r": 1}, {"r": 2}]}]}, "one run trains one adapter"),
        ({"base_models": [{"adapters": [{"type": "lokr"}]}]}, "got 'lokr'"),
        ({"base_models": [{"adapters": [{"r": 8}]}]}, "base_models[0].adapters[0].r=8 (line"),
        ({"soft_prompts": ["x"]}, "soft prompts are not trained"),
        ({"trainning": {"config": {"lr": 1}}}, "trainning.config.lr=1: unknown key"),
        ({"base_models": [{"prompt_template": "llama3"}]}, "got 'llama3'; others are read from"),
    ],
)
def test_what_changes_the_training_and_cannot_be_done_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    found = checked(tmp_path, {**SECTIONS, **change})
    assert any(message in problem for problem in found.problems)


AXOLOTL = """
base_model: org/name
adapter: qlora
lora_target_linear: true
lora_target_modules: [q_proj]
peft_use_dora: true
datasets:
  - path: org/rows
    type: alpaca
val_set_size: 0
sequence_len: 512
evals_per_epoch: 4
eval_steps: 0.1
fp16: true
bf16: auto
wandb_project: mine
special_tokens:
  pad_token: "<pad>"
hub_token: hf_abcdef
"""


def test_axolotls_file_has_axolotls_meaning(tmp_path: Path) -> None:
    found = checked(tmp_path, AXOLOTL)
    assert found.problems == []
    assert found.layer.values == {
        "adapter.method": "dora",
        "adapter.quantization": "nf4",
        "adapter.targets": "all-linear",
        "data.max_length": 512,
        "data.packing": False,
        "data.template": "alpaca",
        "data.validation_share": 0.01,
        "model.checkpointing": "off",
        "seed": 42,
        "training.accumulation": 1,
        "training.batch_size": 1,
        "training.epochs": 1,
        "training.eval_every_epochs": 1,
        "training.eval_every_steps": None,
        "training.max_steps": None,
        "training.optim": "adamw_torch_fused",
        "training.precision": "auto",
        "training.schedule": "cosine",
        "training.warmup_share": 0.03,
        "training.weight_decay": 0.0,
    }
    assert dict(found.others) == {"hub_token": "left out", "wandb_project": "mine"}
    assert "hf_abcdef" not in "".join(answer.text for answer in found.answers)
    assert whys(found)["lr_scheduler"] == "cosine after warm-up; axolotl's default"


def test_a_file_without_an_adapter_trains_all_weights_as_its_program_does(tmp_path: Path) -> None:
    axolotl = "datasets:\n  - path: rows.jsonl\n"
    for text in (axolotl, "output_dir: out\n"):
        assert checked(tmp_path, text).layer.values["adapter.method"] == "none"
    used = checked(tmp_path, "output_dir: out\nuse_peft: true\nuse_dora: true\n")
    assert used.layer.values["adapter.method"] == "dora"


def test_rows_of_the_hub_are_answered_with_the_command_that_gets_them(tmp_path: Path) -> None:
    path = written(tmp_path, AXOLOTL)
    (problem,) = checked_manifest(path, ["model.path=/m"]).problems
    assert "datasets[0].path=org/rows: it names rows of the hub" in problem
    assert "load_dataset('org/rows', split='train')" in problem
    (tmp_path / "org" / "rows").mkdir(parents=True)
    assert checked_manifest(path, ["model.path=/m"]).problems == []


TRAINER = "output_dir: out\n"


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "training.learning_rate", 2e-5),
        ("", "training.precision", "bf16"),
        ("fp16: true\n", "training.precision", "fp16"),
        ("bf16: false\n", "training.precision", "fp32"),
        ("warmup_ratio: 0.1\n", "training.warmup_share", 0.1),
        ("", "data.packing", False),
        ("use_peft: false\nuse_dora: true\n", "adapter.method", "none"),
        ("lora:\n  r: 8\n", "adapter.rank", 8),
        ("activation_checkpointing: false\n", "model.checkpointing", "off"),
        ("eval_strategy: steps\nlogging_steps: 7\n", "training.eval_every_steps", 7),
        ("learning_rate: 0.5\nlr_scheduler_kwargs:\n  min_lr_rate: 0.5\n",
         "training.min_learning_rate", 0.25),
    ],
)  # fmt: skip
def test_trls_file_has_trls_meaning(text: str, key: str, value: object, tmp_path: Path) -> None:
    found = checked(tmp_path, TRAINER + text)
    assert found.problems == []
    assert found.layer.values[key] == value


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("lora:\n  r: 8\n", "adapter.method"),
        ("assistant_only_loss: false\n", "data.loss"),
        ("dataset_text_field: text\n", "data.text"),
        ('eos_token: "<EOS_TOKEN>"\n', "data.text"),
    ],
)
def test_what_says_nothing_leaves_hotloops_default(text: str, key: str, tmp_path: Path) -> None:
    found = checked(tmp_path, TRAINER + text)
    assert found.problems == []
    assert key not in found.layer.values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lora_r: 8\n", "lora_r=8: it asks for an adapter, and TRL trains all weights"),
        ("max_length: null\n", "max_length=null: null cuts nothing off in TRL"),
        ("training:\n  evaluation:\n    batch_size: 64\n",
         "training.evaluation.batch_size=64: unknown"),
        ("training:\n  deepspeed:\n    gradient_clipping: 0.3\n", None),
        ("model:\n  dropout: 0.1\n", "model.dropout=0.1: unknown key"),
        ("training:\n  stages:\n    - epochs: 1\n    - epochs: 3\n",
         "training.stages[0].epochs=1: unknown"),
        ("lora_target_modules: 'layers.[0-9]+.q_proj'\nuse_peft: true\n", "regular expressions"),
        ("packing_strategy: wrapped\n", "packing_strategy=wrapped: expected one of bfd, ffd, got"),
        ("resume_from_checkpoint: out/checkpoint-5\n", "give init_from=RUN"),
        ("early_stopping_patience: 3\neval_steps: 0.1\n",
         "it counts validations, and eval_steps=0.1"),
        ("system_prompt: You are a pirate\n", "write the system message into them"),
    ],
)  # fmt: skip
def test_what_would_mean_something_else_is_refused(
    text: str, message: str | None, tmp_path: Path
) -> None:
    problems = checked(tmp_path, TRAINER + text).problems
    if message is None:
        assert problems == []
    else:
        assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    "text",
    [
        "model:\n  token: abcsecret\n",
        "wandb:\n  key: abcsecret\n",
        "hub_token: abcsecret\n",
        "model_init_kwargs:\n  token: abcsecret\n",
        "mlflow_tracking_uri: https://u:abcsecret@host\n",
        "slurm:\n  export: WANDB_API_KEY=abcsecret\n",
        "openai_key: abcsecret\n",
        "report_to: hf_abcsecret\n",
    ],
)
def test_a_secret_is_neither_shown_nor_kept(text: str, tmp_path: Path) -> None:
    found = checked(tmp_path, TRAINER + text)
    told = "".join([*(answer.text for answer in found.answers), *found.problems])
    assert "abcsecret" not in told + str(dict(found.others))


def test_the_flat_file_has_what_the_command_line_overrides(tmp_path: Path) -> None:
    text = TRAINER + "num_train_epochs: 2\nlearning_rate: 0.1\ngradient_accumulation_steps: 4\n"
    found = checked(tmp_path, text, "training.accumulation=2", "training.lr=1", "training.epochs=5")
    short = found.short(tmp_path)
    assert (short["epochs"], short["learning_rate"]) == (2, 0.1)
    assert short["gradient_accumulation_steps"] == 4
    assert "data" not in short


def test_paths_of_the_flat_file_lead_where_the_manifests_do(tmp_path: Path) -> None:
    path = written(tmp_path, {"data": "d/later.jsonl", "pretokenized_cache": "t"}, "m.json")
    short = checked_manifest(path).short(tmp_path / "other")
    assert short["data"] == str(tmp_path / "d/later.jsonl")
    assert short["pretokenized_cache"] == str(tmp_path / "t")


def test_a_name_to_ignore_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    first = written(tmp_path, TRAINER)
    second = written(tmp_path, TRAINER + "adapterr: 1\n", "n.yml")
    typed = [*ROWS, "ignore=adapterr,output_dir"]
    with pytest.raises(ConfigError, match=r"ignore: .*m\.yml has no adapterr"):
        expand(str(first), assignments=typed)
    assert len(expand(f"{first},{second}", assignments=typed)) == 2


def test_what_is_refused_has_no_other_answer(tmp_path: Path) -> None:
    text = TRAINER + "lora_r: 8\nearly_stopping_patience: 3\neval_steps: 0.1\n"
    keys = [answer.item.key for answer in checked(tmp_path, text).answers]
    assert len(keys) == len(set(keys))


def test_dora_and_qlora_are_dora_on_four_bits(tmp_path: Path) -> None:
    adapter = {"base_models": [{"quantization": "int4", "adapters": [{"type": "qlora"}]}]}
    found = checked(tmp_path, {**adapter, "training": {"config": {"adapter_type": "dora"}}})
    assert found.problems == []
    assert found.layer.values["adapter.method"] == "dora"
    assert found.layer.values["adapter.quantization"] == "nf4"


def test_positions_are_scaled_for_no_row(tmp_path: Path) -> None:
    scaling = {"factor": 4.0, "original_max_position_embeddings": 1024}
    model = {"base_models": [{"rope_scaling": scaling}]}
    for length, count in ((1024, 0), (2048, 1)):
        config = {"training": {"config": {"max_seq_length": length}}}
        assert len(checked(tmp_path, {**model, **config}).problems) == count


def test_keys_and_sections_can_be_left_out(tmp_path: Path) -> None:
    text = "output_dir: out\nfoo:\n  a: 1\n  b: 2\nbar: 3\n"
    assert len(checked(tmp_path, text).problems) == 3
    found = checked(tmp_path, text, "ignore=foo,bar")
    assert found.problems == []
    assert whys(found)["foo.a"] == "ignore=foo on the command line"


def test_a_token_that_the_tokenizer_has_is_not_needed(tmp_path: Path) -> None:
    tiny_tokenizer.save(tmp_path)
    text = "datasets:\n  - path: rows.jsonl\nspecial_tokens:\n  eos_token: {}\n"
    for token, count in (("</s>", 0), ("<other>", 1)):
        path = written(tmp_path, text.format(token))
        found = checked_manifest(path, [f"model.path={tmp_path}", "data.path=/d"])
        assert len(found.problems) == count


def test_an_unknown_key_that_is_off_asks_for_nothing(tmp_path: Path) -> None:
    found = checked(tmp_path, "output_dir: out\nsome_new_thing: false\nother:\n")
    assert found.problems == []
    assert words(found)["some_new_thing"] == "not needed here"


def test_the_tables_know_no_key_by_two_outcomes() -> None:
    trainer = dialect_of(["output_dir"])
    assert isinstance(trainer, Dialect)
    assert trainer.meaning("nothing.known") is None
    assert isinstance(trainer.meaning("fsdp_config.x.y"), Meaning)


def test_check_prints_every_key_and_flat_means_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SECTIONS, "m.json")
    argv = ["train", "expert-sft", f"manifest={path}", *ROWS]
    flat = tmp_path / "flat.json"
    assert main([*argv, "--check", "--to-flat", str(flat)]) == 0
    out = capsys.readouterr().out
    assert "training.config.epochs=1.5" in out
    assert "11 in effect" in out
    again = checked_manifest(flat, ROWS)
    assert again.dialect == "short"
    assert again.problems == []
    assert again.layer.values == checked_manifest(path, ROWS).layer.values
    assert main(["train", "expert-sft", f"manifest={path}", "data.path=/d", "--check"]) == 78
    assert "refused" in capsys.readouterr().out


def test_check_needs_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "expert-sft", "--check"]) == 2
    assert "write manifest=FILE" in capsys.readouterr().err


def test_an_unreadable_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a map of settings"):
        checked_manifest(written(tmp_path, "- 1\n"))
