from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.recipes.sft.manifest_answers import Answer, ManifestField
from hotloop.recipes.sft.manifest_fields import FIELDS, Field
from hotloop.recipes.sft.manifest_settings import answers


def asked(
    manifest: dict[str, Any], folder: Path = Path("some"), given: tuple[str, ...] = ()
) -> dict[str, Answer]:
    read = {
        name: ManifestField(key=name, place=f"m.json:{line}", raw=raw, value=FIELDS[name].read(raw))
        for line, (name, raw) in enumerate(manifest.items(), start=1)
        if raw is not None
    }
    found = answers(read, folder=folder, expert="sql", given=given)
    keys = [item.key for answer in found for item in (answer.item, *answer.beside)]
    assert sorted(keys) == sorted(read)
    return {answer.item.key: answer for answer in found}


def refused(manifest: dict[str, Any]) -> list[str]:
    return [answer.problem for answer in asked(manifest).values() if answer.word == "refused"]


def became(manifest: dict[str, Any]) -> dict[str, object]:
    return {k: v for answer in asked(manifest).values() for k, v in answer.settings.items()}


@pytest.mark.parametrize(
    ("manifest", "settings"),
    [
        ({"batch_size": 16, "gradient_accumulation_steps": 4},
         {"training.batch_size": 64, "training.accumulation": 4}),
        ({"batch_size": 16}, {"training.batch_size": 16, "training.accumulation": 1}),
        ({"gradient_accumulation_steps": 1}, {"training.accumulation": 1}),
        ({"batch_size": 16, "gradient_accumulation_steps": None},
         {"training.batch_size": 16, "training.accumulation": 1}),
        ({"fp16": False, "bf16": True}, {"training.precision": "bf16"}),
        ({"bf16": False, "fp16": True}, {"training.precision": "fp16"}),
        ({"fp16": True}, {"training.precision": "fp16"}),
        ({"bf16": "auto"}, {"training.precision": "auto"}),
        ({"fp16": True, "bf16": "auto"}, {"training.precision": "auto"}),
        ({"fp16": False, "bf16": "auto"}, {"training.precision": "auto"}),
        ({"fp16": False, "bf16": False}, {"training.precision": "fp32"}),
        ({"fp16": False}, {"training.precision": "fp32"}),
        ({"bf16": False}, {"training.precision": "fp32"}),
        ({"use_tf32": True, "use_sdpa": True}, {"model.tf32": True, "model.attention": "auto"}),
        ({"use_sdpa": False}, {"model.attention": "naive"}),
        ({"gradient_checkpointing": True}, {"model.checkpointing": "full"}),
        ({"gradient_checkpointing": False}, {"model.checkpointing": "off"}),
        ({"torch_compile": True, "max_seq_length": 8},
         {"training.use_compile": True, "data.max_length": 8}),
        ({"optim": "adamw_torch_fused"}, {"training.optim": "adamw_torch_fused"}),
        ({"optim": "adamw_torch"}, {"training.optim": "adamw_torch_fused"}),
        ({"optim": "paged_adamw_8bit"}, {"training.optim": "adamw_8bit"}),
        ({"optim": "adafactor"}, {"training.optim": "adafactor"}),
        ({"group_by_length": True}, {"data.group_by_length": True, "data.packing": False}),
        ({"group_by_length": True, "packing": False},
         {"data.group_by_length": True, "data.packing": False}),
        ({"group_by_length": True, "packing": True},
         {"data.group_by_length": False, "data.packing": True}),
        ({"group_by_length": False}, {"data.group_by_length": False}),
        ({"packing": True}, {"data.packing": True}),
        ({"adapter_type": "dora", "rank": 8, "alpha": 16, "dropout": 0.1, "target_modules": ["q"]},
         {"adapter.method": "dora", "adapter.rank": 8, "adapter.alpha": 16.0,
          "adapter.dropout": 0.1, "adapter.targets": "q"}),
        ({"adapter_type": "ia3", "rank": 8, "alpha": 16, "dropout": 0.1, "target_modules": ["q"]},
         {"adapter.method": "ia3", "adapter.targets": "q"}),
        ({"adapter_type": "full", "rank": 8, "target_modules": ["q"]}, {"adapter.method": "none"}),
        ({"adapter_type": "qlora"}, {"adapter.method": "lora", "adapter.quantization": "nf4"}),
        ({"quantization": "4bit"}, {"adapter.quantization": "nf4"}),
        ({"quantization": "none", "load_in_8bit": False}, {"adapter.quantization": "none"}),
        ({"load_in_4bit": True}, {"adapter.quantization": "nf4"}),
        ({"load_in_4bit": False, "adapter_type": "none"},
         {"adapter.method": "none", "adapter.quantization": "none"}),
        ({"quantization": "nf4", "load_in_4bit": True, "adapter_type": "qlora"},
         {"adapter.method": "lora", "adapter.quantization": "nf4"}),
        ({"epochs": 3}, {"training.epochs": 3, "training.max_steps": None}),
        ({"epochs": 1.5}, {"training.epochs": 1.5, "training.max_steps": None}),
        ({"chat_template": "tokenizer_default"}, {"data.template": "tokenizer"}),
        ({"validation_share": 0}, {"data.validation_share": 0.01}),
        ({"validation_share": 0.2}, {"data.validation_share": 0.2}),
        ({"adam_beta2": 0.95}, {"training.betas": (0.9, 0.95)}),
        ({"adam_beta1": 0.8, "adam_beta2": 0.95}, {"training.betas": (0.8, 0.95)}),
        ({"learning_rate": 0.5, "min_lr_rate": 0.5},
         {"training.learning_rate": 0.5, "training.min_learning_rate": 0.25}),
        ({"max_steps": 9}, {"training.max_steps": 9, "training.epochs": None}),
        ({"epochs": 3, "max_steps": 9}, {"training.max_steps": 9, "training.epochs": None}),
        ({"epochs": 3, "max_steps": -1}, {"training.epochs": 3, "training.max_steps": None}),
        ({"max_steps": 0}, {}),
        ({"warmup": 30}, {"training.warmup_steps": 30}),
        ({"warmup": 0.03}, {"training.warmup_share": 0.03}),
        ({"warmup": 0, "warmup_ratio": 0.03}, {"training.warmup_share": 0.03}),
        ({"warmup": 5, "warmup_ratio": 0}, {"training.warmup_steps": 5}),
        ({"warmup": 0, "warmup_ratio": 0.0}, {"training.warmup_steps": 0}),
        ({"warmup_ratio": 0.0}, {"training.warmup_share": 0.0}),
        ({"lr_scheduler": "constant_with_warmup"}, {"training.schedule": "constant"}),
        ({"lr_scheduler": "cosine"}, {"training.schedule": "cosine"}),
        ({"save_steps": 7}, {"training.save_every_steps": 7}),
        ({"save_strategy": "steps", "save_steps": 7}, {"training.save_every_steps": 7}),
        ({"save_strategy": "steps"}, {"training.save_every_steps": 500}),
        ({"save_strategy": "no", "save_steps": 7}, {"training.save_every_steps": None}),
        ({"save_strategy": "epoch"}, {"training.save_every_steps": None}),
        ({"save_total_limit": 3}, {"training.keep": 3}),
        ({"save_total_limit": 1}, {"training.keep": 2}),
        ({"save_total_limit": None}, {}),
        ({"eval_steps": 7}, {"training.eval_every_steps": 7, "training.eval_every_epochs": None}),
        ({"eval_strategy": "steps"},
         {"training.eval_every_steps": 500, "training.eval_every_epochs": None}),
        ({"eval_strategy": "steps", "eval_steps": 7},
         {"training.eval_every_steps": 7, "training.eval_every_epochs": None}),
        ({"eval_strategy": "epoch", "eval_steps": 7},
         {"training.eval_every_steps": None, "training.eval_every_epochs": 1}),
        ({"eval_strategy": "no"},
         {"training.eval_every_steps": None, "training.eval_every_epochs": None}),
        ({"data": "a/b.csv", "valid_data": "/c.csv", "model": "a/b"},
         {"data.path": "some/a/b.csv", "data.valid_path": "/c.csv", "model.name": "a/b"}),
        ({"model": "Qwen/Qwen3-0.6B", "pretokenized_cache": "t/{expert-name}/{base-model}"},
         {"model.name": "Qwen/Qwen3-0.6B", "data.cache": "some/t/sql/Qwen3-0.6B"}),
        ({"name": "sql", "description": "x", "$schema": "y"}, {}),
    ],
)  # fmt: skip
def test_fields_become_settings(manifest: dict[str, Any], settings: dict[str, object]) -> None:
    assert became(manifest) == settings


@pytest.mark.parametrize(
    ("manifest", "key", "text"),
    [
        ({"dataloader_num_workers": 8}, "dataloader_num_workers",
         "not needed here: batches are cut from a memory-mapped file of tokens"),
        ({"dataloader_num_workers": 8, "dataloader_prefetch_factor": 8},
         "dataloader_prefetch_factor", "not needed here: batches are cut"),
        ({"dataloader_num_workers": 0, "dataloader_prefetch_factor": 8},
         "dataloader_prefetch_factor",
         "not needed here: there are no workers (dataloader_num_workers=0)"),
        ({"dataloader_num_workers": 0, "dataloader_persistent_workers": True},
         "dataloader_persistent_workers", "not needed here: there are no workers"),
        ({"dataloader_num_workers": 0, "dataloader_persistent_workers": False},
         "dataloader_persistent_workers", "not needed here: batches are cut"),
        ({"dataloader_pin_memory": False}, "dataloader_pin_memory",
         "not needed here: memory is pinned where there is CUDA"),
        ({"fp16": False, "bf16": True}, "fp16", "in effect: off: the compute type is bf16"),
        ({"fp16": False}, "fp16", "in effect as training.precision=fp32: neither fp16 nor bf16"),
        ({"group_by_length": True, "packing": True}, "group_by_length",
         "not needed here as data.group_by_length=false: packed rows are of one length"),
        ({"adapter_type": "ia3", "rank": 8}, "rank", "not needed here: ia3 learns one factor"),
        ({"adapter_type": "none", "alpha": 8}, "alpha", "not needed here: without an adapter"),
        ({"epochs": 3, "max_steps": 9}, "epochs",
         "not needed here: max_steps decides, as in transformers"),
        ({"epochs": 3, "max_steps": -1}, "max_steps", "not needed here: below 1 it is off"),
        ({"lr_scheduler": "constant", "warmup": 3}, "lr_scheduler",
         "constant after warm-up; transformers would leave warm-up out, here it is done"),
        ({"lr_scheduler": "constant"}, "lr_scheduler", "schedule=constant: constant after warm-up"),
        ({"save_strategy": "no"}, "save_strategy",
         "not needed here as training.save_every_steps=null: a "),
        ({"save_strategy": "epoch", "save_steps": 4}, "save_steps",
         "not needed here: save_strategy='epoch' leaves it out"),
        ({"eval_strategy": "no", "eval_steps": 4}, "eval_steps",
         "not needed here: eval_strategy='no' leaves it out"),
        ({"save_total_limit": 1}, "save_total_limit",
         "in effect as training.keep=2: a torn checkpoint must not be the only one, so 2"),
        ({"optim": "paged_adamw_8bit"}, "optim", "as training.optim=adamw_8bit: not paged"),
        ({"load_in_8bit": False}, "load_in_8bit", "not needed here: 8-bit weights are not offered"),
        ({"name": "sql"}, "name", "in effect: the expert is called sql"),
        ({"description": "x"}, "description", "not needed here: it is for readers, and decides"),
    ],
)  # fmt: skip
def test_a_field_says_what_came_of_it_and_why(
    manifest: dict[str, Any], key: str, text: str
) -> None:
    assert text in asked(manifest)[key].text


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"fp16": True, "bf16": True},
         "m.json:1: fp16=true and bf16=true (m.json:2): training computes in one of them"),
        ({"gradient_accumulation_steps": 4},
         "m.json:1: gradient_accumulation_steps=4: how large a micro batch is, is missing"),
        ({"adapter_type": "qlora", "quantization": "none"},
         "m.json:1: adapter_type='qlora' and quantization='none' (m.json:2): one asks for 4-bit"),
        ({"load_in_4bit": False, "quantization": "nf4"},
         "m.json:2: quantization='nf4' and load_in_4bit=false (m.json:1): one asks for 4-bit"),
        ({"adapter_type": "none", "load_in_4bit": True},
         "m.json:1: adapter_type='none' and load_in_4bit=true (m.json:2): 4-bit weights are froz"),
        ({"load_in_8bit": True}, "m.json:1: load_in_8bit=true: 8-bit weights are not offered"),
        ({"min_lr_rate": 0.1}, "min_lr_rate=0.1: it is a share of learning_rate, which is missing"),
        ({"data": "a/b::train::default"}, "load_dataset('a/b', 'default', split='train')"),
        ({"data": "C:\\rows\\a.jsonl"}, "neither relative nor absolute on this system"),
        ({"model": "C:/models/x"}, "a path of Windows, and not of this system; give model.name="),
        ({"warmup": 3, "warmup_ratio": 0.1},
         "m.json:1: warmup=3 and warmup_ratio=0.1 (m.json:2): two lengths of one warm-up"),
        ({"warmup": 1.5}, "m.json:1: warmup=1.5: expected whole optimizer steps, or a share"),
        ({"data": "../x"}, "m.json:1: data='../x': it goes up with ..; write a path below"),
        ({"valid_data": "{x}"}, "m.json:1: valid_data='{x}': unknown placeholder '{x}'"),
        ({"pretokenized_cache": "."},
         "m.json:1: pretokenized_cache='.': it is the manifest's own folder"),
        ({"pretokenized_cache": "{base-model}"}, "comes from the field model, which is missing"),
    ],
)  # fmt: skip
def test_fields_that_contradict_each_other_are_refused_with_both_places(
    manifest: dict[str, Any], message: str
) -> None:
    (problem,) = refused(manifest)
    assert message in problem


def test_a_model_folder_beside_the_manifest_goes_before_another(tmp_path: Path) -> None:
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    found = asked({"model": "models/tiny"}, tmp_path)["model"]
    assert found.settings == {"model.name": str(tmp_path / "models" / "tiny")}
    assert "beside the manifest" in found.text
    assert asked({"model": "models/other"}, tmp_path)["model"].settings == {
        "model.name": "models/other"
    }


def test_every_contradiction_is_told_at_once() -> None:
    assert len(refused({"fp16": True, "bf16": True, "load_in_8bit": True, "data": "~"})) == 3


def test_rows_of_the_command_line_replace_all_rows_of_the_manifest() -> None:
    manifest = {"data": "../x", "valid_data": "v.jsonl", "rank": 4}
    found = asked(manifest, given=("data.path",))
    assert {key: answer.settings for key, answer in found.items() if answer.settings} == {
        "rank": {"adapter.rank": 4}
    }
    assert "data.valid_path=… names others" in found["valid_data"].why


def values_of(field: Field) -> st.SearchStrategy[Any]:
    if field.rule.choices:
        return st.sampled_from(field.rule.choices)
    numbers = [number for number in (0.0, 0.25, 1.5, 3.0) if field.rule.allows(number)]
    return {
        bool: st.sampled_from([True, False, *field.words]),
        int: st.integers(int(field.rule.low or 0), 9),
        float: st.sampled_from(numbers),
        str: st.sampled_from(["a", "b/c", "{model}"]),
    }[field.kind]


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True))
    return {name: draw(st.none() | values_of(FIELDS[name])) for name in names}


@given(manifests())
@settings(max_examples=200, deadline=None)
def test_every_field_gets_an_answer_and_every_setting_has_one_field(
    manifest: dict[str, Any],
) -> None:
    taken: set[str] = set()
    for name, answer in asked(manifest).items():
        assert answer.why
        assert answer.problem.startswith("m.json:")
        assert set(answer.settings) <= set(FIELDS[name].targets)
        assert not taken & answer.settings.keys()
        assert answer.word != "refused" or not answer.settings
        taken |= answer.settings.keys()


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.targets])
def test_every_field_with_a_target_can_set_it_alone(name: str) -> None:
    field = FIELDS[name]
    raw = {bool: True, int: 1, float: 0.5, str: "a"}[field.kind]
    manifest = {name: field.rule.choices[0] if field.rule.choices else raw}
    if name == "min_lr_rate":
        manifest["learning_rate"] = 1.0
    if name == "save_strategy":
        manifest[name] = "steps"
    assert set(became(manifest)) & set(field.targets)
