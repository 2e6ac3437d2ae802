import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paths import ROOT

from hotloop.config.layers import parse_assignments
from hotloop.config.schema import flatten
from hotloop.config.settings import resolve
from hotloop.core.errors import ConfigError
from hotloop.recipes.sft import manifest_fields
from hotloop.recipes.sft.config import ExpertSftConfig
from hotloop.recipes.sft.manifest_fields import FIELDS, SPELLINGS
from hotloop.recipes.sft.manifests import Manifest, expand, read_manifest

EXAMPLES = ROOT / "examples" / "manifests"
NAMES = ("json", "typescript", "sql", "cypher")
VERBATIM = (  # issue 7, with its line break
    '{"batch_size": 16, "gradient_accumulation_steps": 4, "max_seq_length": 2048, '
    '"dataloader_num_workers": 8, "dataloader_prefetch_factor": 8, '
    '"dataloader_persistent_workers": true, "fp16": false, "bf16": true, "use_tf32": true, '
    '"use_sdpa": true, "optim"\n: "adamw_torch_fused", "group_by_length": true, '
    '"gradient_checkpointing": false, '
    '"pretokenized_cache": "datasets_optimized/{expert-name}/tokenized"}'
)


def write(folder: Path, text: str | bytes | Mapping[str, Any], name: str = "sql.json") -> Path:
    path = folder / name
    data = json.dumps(text, indent=0) if isinstance(text, Mapping) else text
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_manifest(path)
    text = str(caught.value)
    assert all(line.isprintable() for line in text.splitlines())
    return text.replace(f"{path.parent}/", "")


def test_the_verbatim_manifest_is_accepted_whole_with_a_statement_for_each_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, VERBATIM)
    monkeypatch.chdir(tmp_path)
    manifest = read_manifest(Path("sql.json"))
    assert [answer.item.key for answer in manifest.answers] == list(json.loads(VERBATIM))
    loader = "not needed here: batches are cut from a memory-mapped file of tokens, without loader"
    assert [answer.text for answer in manifest.answers] == [
        "sql.json:1: batch_size=16: in effect as training.batch_size=64: 4 x 16 samples are one"
        " optimizer step",
        "sql.json:1: gradient_accumulation_steps=4: in effect as training.accumulation=4: micro"
        " batches in one optimizer step",
        "sql.json:1: max_seq_length=2048: in effect as data.max_length=2048: longest row in tokens",
        f"sql.json:1: dataloader_num_workers=8: {loader} processes",
        f"sql.json:1: dataloader_prefetch_factor=8: {loader} processes",
        f"sql.json:1: dataloader_persistent_workers=true: {loader} processes",
        "sql.json:1: fp16=false: in effect: off: the compute type is bf16",
        "sql.json:1: bf16=true: in effect as training.precision=bf16: compute in bf16",
        "sql.json:1: use_tf32=true: in effect as model.tf32=true: TF32 in fp32 matrix products",
        "sql.json:1: use_sdpa=true: in effect as model.attention=auto: the fastest fused kernel"
        " there is",
        "sql.json:1: optim='adamw_torch_fused': in effect as training.optim=adamw_torch_fused:"
        " what updates the weights",
        "sql.json:2: group_by_length=true: in effect as data.group_by_length=true,"
        " data.packing=false: rows of like length share a batch, so they are not packed; packing"
        " wastes less",
        "sql.json:2: gradient_checkpointing=false: in effect as model.checkpointing=off:"
        " activations are kept",
        "sql.json:2: pretokenized_cache='datasets_optimized/{expert-name}/tokenized': in effect as"
        " data.cache=datasets_optimized/sql/tokenized: folder of packed tokens, relative to the"
        " manifest",
    ]
    assert manifest.name == "sql"
    assert manifest.layer.requested
    assert manifest.layer.where("training.batch_size") == "sql.json:1 manifest key batch_size"
    assert manifest.layer.where("data.packing") == "sql.json:2 manifest key group_by_length"


def test_a_manifest_gives_way_to_the_command_line_and_names_its_key(tmp_path: Path) -> None:
    path = write(tmp_path, VERBATIM)
    typed = parse_assignments(["training.batch_size=8"])
    resolved = resolve(ExpertSftConfig, [read_manifest(path).layer, typed])
    assert resolved.config.training.batch_size == 8
    assert resolved.origins["training.batch_size"] == "command line"
    assert resolved.config.data.max_length == 2048
    assert resolved.origins["data.max_length"] == f"{path}:1 manifest key max_seq_length"
    assert resolved.origins["adapter.rank"] == "default"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_sets_what_expert_sft_has(name: str) -> None:
    manifest = read_manifest(EXAMPLES / f"{name}.json")
    config = resolve(ExpertSftConfig, [manifest.layer]).config
    flat = flatten(config)
    for key, value in manifest.layer.values.items():
        as_word = str(value).lower() if key == "training.use_compile" else value
        assert flat[key] == as_word, key
    assert not [answer.text for answer in manifest.answers if answer.word == "refused"]


def test_the_examples_are_spelt_in_four_ways_and_name_the_shipped_schema() -> None:
    shipped = Path(manifest_fields.__file__).with_name("manifest.schema.json")
    used = set()
    for name in NAMES:
        raw = json.loads((EXAMPLES / f"{name}.json").read_text())
        assert (EXAMPLES / raw["$schema"]).resolve() == shipped.resolve()
        used |= {SPELLINGS[key].name for key in raw}
    assert set(FIELDS) - used == {
        "adam_beta1", "adam_beta2", "chat_template", "dataloader_pin_memory", "drop_last",
        "early_stopping_patience", "input_column", "instruction_column", "label_smoothing_factor",
        "logging_steps", "loss", "max_grad_norm", "messages_column", "min_learning_rate",
        "min_lr_rate", "output_column", "seed", "text_column", "validation_share", "weight_decay",
    }  # fmt: skip
    assert {path.stem for path in EXAMPLES.glob("*.json")} == set(NAMES)


def test_examples_of_real_data_name_it_below_the_manifest() -> None:
    found = {name: read_manifest(EXAMPLES / f"{name}.json").layer.values for name in NAMES}
    assert found["sql"]["data.path"] == str(EXAMPLES / "data/text2sql_advising/pairs.jsonl")
    assert found["cypher"]["data.path"] == str(
        EXAMPLES / "data/text2cypher/text2cypher_gpt4turbo.csv"
    )


def test_the_experts_name_is_the_field_or_the_file(tmp_path: Path) -> None:
    assert read_manifest(write(tmp_path, {}, "a.b.json")).name == "a.b"
    assert read_manifest(write(tmp_path, {"name": "sql"}, "x y.json")).name == "sql"
    assert read_manifest(write(tmp_path, {"expert-name": "sql"}, "x.JSON")).name == "sql"
    assert read_manifest(write(tmp_path, {"name": None}, "x.json")).name == "x"
    assert "x y.json: 'x y' cannot be an expert's name" in refused(write(tmp_path, {}, "x y.json"))
    text = refused(write(tmp_path, '{\n"name": "../x"}'))
    assert text.startswith("sql.json:2: name: '../x' cannot be an expert's name")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rank": 1,\n"rank": 1}', "sql.json:2: rank stands twice (first: sql.json:1); keep one"),
        ('{"rank": 1,\n"lora_r": 2}',
         "sql.json:2: lora_r=2: rank=1 (line 1) is the same field with another value; keep one"),
        ('{\n\n"batchsize": 1}', "sql.json:3: batchsize=1: unknown key; did you mean batch_size?"),
        ('{"lara":\n{"r": 8}}', "sql.json:2: lara.r=8: unknown key"),
        ('{"lora_rnk": 1}', "sql.json:1: lora_rnk=1: unknown key; did you mean lora_rank?"),
        ('{\n"rank": "8"}', "sql.json:2: rank='8': expected a whole number from 1, got '8'"),
        ('{\n"lora_r": 0}', "sql.json:2: lora_r=0: expected a whole number from 1, got 0"),
        ('{"rank": 8,\n}', "sql.json:2: not valid JSON"),
        ('{"lr":\nNaN}', "sql.json:2: not valid JSON: NaN is not JSON"),
        ('{"lr":\n1e999}', "sql.json:1: lr=inf: expected a number above 0, got inf"),
        ("[]", "sql.json: expected a map of settings, got a list"),
        ("", "sql.json:1: not valid JSON"),
        ('{"target_modules": ["a",\n["b"]]}', "sql.json:1: target_modules[0]='a': unknown key"),
        ('{"rank": ' + "[" * 99999, "sql.json:1: not valid JSON: nested too deep"),
        ('{"rank": "' + "x" * 300_000 + '"}', "larger than 256 KiB"),
        (b'{"model": "\xff"}', "sql.json:1: not UTF-8"),
        ('{"model": "a\\u0000b"}', "sql.json:1: model='a\\x00b': 'a\\x00b' holds '\\x00'"),
        ('{"\\u001b[31m": 1}', "sql.json:1: '\\x1b[31m'=1: unknown key"),
        ('{"data":\n"a/../../b"}', "data='a/../../b': it goes up with .."),
        ('{"fp16": true,\n"bf16": true}',
         "sql.json:1: fp16=true and bf16=true (sql.json:2): training computes in one of them"),
    ],
    ids=range(20),
)  # fmt: skip
def test_a_bad_manifest_is_answered_with_key_and_line(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    assert message in refused(write(tmp_path, text))


def test_every_bad_field_is_told_at_once(tmp_path: Path) -> None:
    text = refused(write(tmp_path, {"rank": 0, "alhpa": 1, "lr": -1, "epochs": 1}))
    assert [line.split(": ")[0] for line in text.splitlines()] == [
        "sql.json:2",
        "sql.json:3",
        "sql.json:4",
    ]


@pytest.mark.parametrize("name", ["sql.toml", "sql", "sql.json.gz", ".json"])
def test_a_manifest_is_json_or_yaml(name: str, tmp_path: Path) -> None:
    text = refused(write(tmp_path, {}, name))
    assert f"{name}: expected a .yaml, .yml or .json file" in text


def test_a_manifest_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "sql.json") == "sql.json: cannot be read: No such file or directory"


def test_a_cache_stays_below_its_manifest_though_a_link_leads_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "out").symlink_to(tmp_path)
    text = refused(write(home, {"pretokenized_cache": "out/tokens"}))
    assert "leads out of the manifest's folder by a link; write a path below" in text


def runs(*names: str, output: str | None, folder: Path) -> list[tuple[Manifest, Path | None]]:
    return expand(",".join(str(folder / name) for name in names), output)


def test_each_manifest_is_a_run_with_a_folder_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"model": "a/b"}, "a.json")
    write(tmp_path, {"name": "second", "model": "a/b"}, "b.json")
    for output in ("weights/{model}", "weights/{expert-name}"):
        found = runs("a.json", "b.json", output=output, folder=tmp_path)
        assert [folder for _, folder in found] == [Path("weights/a"), Path("weights/second")]
        assert [manifest.name for manifest, _ in found] == ["a", "second"]
    found = runs("a.json", "b.json", output="{base-model}/{model}", folder=tmp_path)
    assert [folder for _, folder in found] == [Path("b/a"), Path("b/second")]


def test_without_an_output_a_run_names_its_folder_itself(tmp_path: Path) -> None:
    write(tmp_path, {}, "a.json")
    assert [folder for _, folder in expand(f"{tmp_path}/a.json , {tmp_path}/a.json")] == [None] * 2


@pytest.mark.parametrize(
    ("first", "second", "output", "remedy"),
    [
        ({}, {}, "weights/one", "write {model} into output="),
        ({}, {}, "weights/x/../one", "write {model} into output="),
        ({"model": "x/q"}, {"model": "y/q"}, "w/{base-model}", "write {model} into output="),
        ({"name": "sql"}, {"name": "sql"}, "weights/{model}", 'give one another "name"'),
        ({"name": "sql"}, {"name": "SQL"}, "weights/{model}", 'give one another "name"'),
    ],
)
def test_two_runs_never_share_a_folder(
    first: dict[str, Any], second: dict[str, Any], output: str, remedy: str, tmp_path: Path
) -> None:
    write(tmp_path, first, "a.json")
    write(tmp_path, second, "b.json")
    with pytest.raises(ConfigError) as caught:
        runs("a.json", "b.json", output=output, folder=tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/a.json (expert ")
    assert f" and {tmp_path}/b.json (expert " in text
    assert "would share the folder" in text
    assert text.endswith(remedy)


@pytest.mark.parametrize("manifests", ["", "a.json,", ",a.json", "a.json,,b.json", " "])
def test_an_empty_name_among_the_manifests_is_refused(manifests: str) -> None:
    with pytest.raises(ConfigError, match="expected FILE or FILE,FILE, got an empty name"):
        expand(manifests)


def test_the_problems_of_every_manifest_are_told_before_any_run(tmp_path: Path) -> None:
    write(tmp_path, {"rank": 0}, "a.json")
    write(tmp_path, {"rank": 1}, "b.json")
    with pytest.raises(ConfigError) as caught:
        runs("a.json", "b.json", "c.json", output=None, folder=tmp_path)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"{tmp_path}/a.json:2",
        f"{tmp_path}/c.json",
    ]


def test_an_unknown_placeholder_of_the_output_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {}, "a.json")
    with pytest.raises(ConfigError, match=r"output=w/\{modle\} for .*did you mean model\?"):
        runs("a.json", output="w/{modle}", folder=tmp_path)
    with pytest.raises(ConfigError, match="comes from the field model, which is missing"):
        runs("a.json", output="w/{base-model}", folder=tmp_path)


@given(st.dictionaries(st.sampled_from([*FIELDS, "lr", "x"]), st.none() | st.booleans() | st.text()
                       | st.floats() | st.lists(st.text(max_size=3), max_size=2), max_size=5)
       .map(json.dumps) | st.text('{}[]",:\\ab1\n'))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_manifest_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = write(tmp_path_factory.getbasetemp(), text, "any.json")
    try:
        told = " ".join(answer.text for answer in read_manifest(path).answers)
    except ConfigError as error:
        told = str(error).replace("\n", " ")
    assert told.isprintable()


def test_reading_a_manifest_needs_no_torch() -> None:
    code = "import sys, hotloop.recipes.sft.manifests; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
