import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import ConfigError
from hotloop.recipes.sft import manifest_fields
from hotloop.recipes.sft.manifest_fields import FIELDS, OPTIMIZERS, SPELLINGS, schema, schema_text

SHIPPED = Path(manifest_fields.__file__).with_name("manifest.schema.json")
KINDS = {"integer": int, "number": (int, float), "boolean": bool, "string": str, "array": list}


def is_kind(value: object, kind: str) -> bool:
    if kind == "null" or value is None or isinstance(value, bool):
        return (kind == "null") == (value is None) and (kind == "boolean" or value is None)
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return kind != "boolean" and isinstance(value, KINDS[kind])


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value fits a schema, as far as the schema of manifests goes."""
    kinds = rule.get("type", [])
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        return False
    if "enum" in rule and not any(
        value == one and type(value) is type(one) for one in rule["enum"]
    ):
        return False
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        return False
    if isinstance(value, list):
        return len(value) >= rule["minItems"] and all(
            isinstance(one, str) and re.search(rule["items"]["pattern"], one) for one in value
        )
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number or (
        rule.get("minimum", value) <= value <= rule.get("maximum", value)
        and rule.get("exclusiveMinimum", value - 1) < value
        and value < rule.get("exclusiveMaximum", value + 1)
    )


def valid(manifest: dict[str, Any]) -> bool:
    """Whether a manifest fits the schema: by the check above, and by jsonschema's where it is."""
    known = schema()["properties"]
    ours = True
    for key, value in manifest.items():
        rule = known.get(key)
        rule = rule and known[rule["$ref"].rpartition("/")[2]] if rule and "$ref" in rule else rule
        ours = ours and rule is not None and fits(value, rule)
    if importlib.util.find_spec("jsonschema"):
        import jsonschema

        theirs = jsonschema.Draft202012Validator(schema()).is_valid(manifest)
        assert theirs == ours, manifest
    return ours


def readable(key: str, value: object) -> bool:
    try:
        SPELLINGS[key].read(value)
    except ConfigError:
        return False
    return True


values = st.one_of(
    st.sampled_from(
        [None, True, False, "auto", "", "a,b", "${x}", "x\n", "\x00", "{", 8.0, [], [[]]]
    ),
    st.sampled_from([choice for field in FIELDS.values() for choice in field.rule.choices]),
    st.integers(-2, 70),
    st.floats(-1.5, 2.5),
    st.lists(st.sampled_from(["q_proj", "a,b", "", None, 1]), max_size=2),
    st.text(max_size=4),
)


@given(st.sampled_from(list(SPELLINGS)), values)
@settings(max_examples=400, deadline=None)
def test_the_schema_allows_exactly_what_is_read(key: str, value: object) -> None:
    assert valid({key: value}) == readable(key, value)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_may_be_null_and_refuses_a_map(name: str) -> None:
    assert FIELDS[name].read(None) is None
    assert not readable(name, {})
    assert not valid({name: {}})


def test_the_shipped_schema_is_made_of_the_fields() -> None:
    told = (
        "from hotloop.recipes.sft.manifest_fields import schema_text; print(schema_text(), end='')"
    )
    assert SHIPPED.read_text() == schema_text(), f'python -c "{told}" > {SHIPPED.name}'
    assert json.loads(schema_text()) == schema()


def test_the_schema_is_itself_sound() -> None:
    if importlib.util.find_spec("jsonschema"):
        import jsonschema

        jsonschema.Draft202012Validator.check_schema(schema())
    assert set(schema()["properties"]) == set(SPELLINGS)
    assert not valid({"batchsize": 1})


def test_no_two_fields_share_a_spelling() -> None:
    spelt = [name for field in FIELDS.values() for name in (field.name, *field.aliases)]
    assert len(spelt) == len(set(spelt))


def test_every_field_means_something_and_its_target_is_dotted() -> None:
    for field in FIELDS.values():
        assert field.rule.meaning
        assert all(
            re.fullmatch(r"(model|data|training|adapter)\.\w+|seed", to) for to in field.targets
        )


@pytest.mark.parametrize(
    ("name", "raw", "read"),
    [
        ("batch_size", 8.0, 8),
        ("epochs", 3.0, 3),
        ("epochs", 1.5, 1.5),
        ("bf16", "auto", "auto"),
        ("alpha", 16, 16.0),
        ("target_modules", ["q_proj", "v_proj"], "q_proj,v_proj"),
        ("target_modules", "all-linear", "all-linear"),
        ("max_steps", -1, -1),
        ("optim", "paged_adamw_8bit", "paged_adamw_8bit"),
    ],
)
def test_a_value_is_read_as_its_field(name: str, raw: object, read: object) -> None:
    found = FIELDS[name].read(raw)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("batch_size", 0, "expected a whole number from 1, got 0"),
        ("batch_size", "16", "expected a whole number from 1, got '16'"),
        ("batch_size", True, "expected a whole number from 1, got true"),
        ("fp16", "auto", "expected true or false, got 'auto'"),
        ("bf16", "yes", "expected true or false or auto, got 'yes'"),
        ("bf16", 1, "expected true or false or auto, got 1"),
        ("epochs", 0, "expected a number above 0, got 0"),
        ("chat_template", "llama3", "got 'llama3'; others are read from the model's folder"),
        ("adapter_type", "LoRA", "got 'LoRA'; did you mean lora?"),
        ("adapter_type", "prefix", "one of lora, dora, qlora, ia3, none, full, got 'prefix'"),
        ("optim", "adamw_torch_fussed", "did you mean adamw_torch_fused?; others of transformers"),
        ("optim", "lomo", "expected one of adamw_torch_fused, adamw_torch, adamw_hf, adamw, "),
        ("quantization", "int8", "8-bit and fp4 weights are not offered: nf4 (QLoRA), or none"),
        ("quantization", True, "expected one of none, nf4, 4bit, 4-bit, int4, got true"),
        ("lr_scheduler", "polynomial", "expected one of linear, cosine, constant, constant_with_w"),
        ("target_modules", [], "expected text or a list of names, got []; write names such as"),
        ("target_modules", ["a,b"], "expected text or a list of names, got ['a,b']"),
        ("target_modules", 3, "expected text or a list of names, got 3; write names such as"),
        ("model", "a\0b", r"holds '\x00', which no path or name here may hold"),
        ("data", "${oc.env:HOME}/x", "is an interpolation, which is not read"),
        ("learning_rate", 0, "expected a number above 0, got 0"),
        ("dropout", 1.0, "expected a number from 0 below 1, got 1.0"),
        ("warmup", -1, "expected a number from 0, got -1"),
        ("save_steps", 0.1, "expected a whole number from 1, got 0.1; shares of the run are not"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_says_what_was_expected(
    name: str, raw: object, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        FIELDS[name].read(raw)
    assert message in str(caught.value)


def test_every_optimizer_becomes_one_that_is_a_choice_itself() -> None:
    assert {OPTIMIZERS[ours] for ours, _ in OPTIMIZERS.values()} == {
        (name, "") for name in ("adamw_torch_fused", "adamw_8bit", "adafactor")
    }


def words_of_transformers(file: str) -> set[str]:
    spec = importlib.util.find_spec("transformers")  # read, not imported: that takes seconds
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).with_name(file).read_text()
    return set(re.findall(r'^    [A-Z\d_]+ = "(\w+)"', text, re.MULTILINE))


def test_the_names_of_optimizers_and_schedules_are_those_of_transformers() -> None:
    older = {"adamw", "adamw_hf"}  # of manifests written for transformers 4
    assert set(OPTIMIZERS) - words_of_transformers("training_args.py") == older
    assert set(FIELDS["lr_scheduler"].rule.choices) < words_of_transformers("trainer_utils.py")
