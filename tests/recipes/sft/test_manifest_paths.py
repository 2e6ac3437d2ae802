from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import ConfigError
from hotloop.recipes.sft.manifest_paths import below, expert_name, fill, placeholders

NAMES = placeholders("sql", "Qwen/Qwen3-0.6B")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("a/{expert-name}/b", "a/sql/b"),
        ("{expert_name}", "sql"),
        ("weights/{model}", "weights/sql"),
        ("{base-model}-{base_model}", "Qwen3-0.6B-Qwen3-0.6B"),
        ("plain", "plain"),
    ],
)
def test_placeholders_are_filled_in(text: str, filled: str) -> None:
    assert fill(text, NAMES) == filled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{expertname}", "unknown placeholder '{expertname}'; did you mean expert-name?"),
        ("{}", "unknown placeholder '{}'; known: expert-name, model, base-model"),
        ("a{model", "it has a { or } without its other half"),
        ("{{model}}", "it has a { or } without its other half"),
        ("{0.__class__}", "unknown placeholder"),
    ],
)
def test_an_unknown_placeholder_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fill(text, NAMES)
    assert message in str(caught.value)


def test_a_base_model_that_is_not_named_cannot_be_filled_in() -> None:
    with pytest.raises(ConfigError, match="comes from the field model, which is missing"):
        fill("x/{base_model}", placeholders("sql", None))


@pytest.mark.parametrize(
    ("model", "name"),
    [("Qwen/Qwen3-0.6B", "Qwen3-0.6B"), ("/m/qwen/", "qwen"), ("C:\\m\\qwen", "qwen"),
     ("a/b c:d", "b-c-d"), ("../..", None), ("/", None)],
)  # fmt: skip
def test_a_base_model_is_named_by_its_last_part(model: str, name: str | None) -> None:
    assert placeholders("x", model).get("base-model") == name


@pytest.mark.parametrize("name", ["sql", "text2sql", "a.b-c_d", "0"])
def test_a_name_that_can_be_a_folder_is_an_experts(name: str) -> None:
    assert expert_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "a.", "a/b", "a\\b", "a b", "-a", "é", "a\n"]
)
def test_a_name_that_no_folder_should_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be an expert's name"):
        expert_name(name)


def test_a_path_is_below_the_manifests_folder_or_absolute(tmp_path: Path) -> None:
    assert below(tmp_path, "a/b.jsonl") == str(tmp_path / "a/b.jsonl")
    assert below(tmp_path, "./a") == str(tmp_path / "a")
    assert below(tmp_path, "..a/b..") == str(tmp_path / "..a/b..")
    assert below(tmp_path, "/data/x") == "/data/x"
    assert below(Path(), "a") == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("..", "it goes up with .."),
        ("a/../../b", "it goes up with .."),
        ("a\\..\\b", "it goes up with .."),
        ("%2e%2e/b", "it goes up with .."),
        ("a/%2E./b", "it goes up with .."),
        ("a%2f..%2fb", "it goes up with .."),
        ("/data/../etc", "it goes up with .."),
        ("C:\\data", "it is neither relative nor absolute on this system"),
        ("C:data", "it is neither relative nor absolute on this system"),
        ("\\\\host\\share", "it is neither relative nor absolute on this system"),
        ("~/data", "~ is not replaced"),
    ],
)
def test_a_way_out_of_the_folder_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        below(tmp_path, text)
    assert (
        str(caught.value) == f"{message}; write a path below the manifest's folder, or a whole one"
    )


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    (home / "in").mkdir(parents=True)
    out.mkdir()
    (home / "inner").symlink_to(home / "in")
    (home / "outer").symlink_to(out)
    assert below(home, "inner/x") == str(home / "inner/x")
    with pytest.raises(ConfigError, match="leads out of the manifest's folder by a link"):
        below(home, "outer/x")


def test_links_in_a_circle_are_a_config_error_or_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path / "round")
    try:
        told = below(tmp_path, "round")  # Python 3.13 does not follow it
    except ConfigError as error:
        told = str(error)
    assert told.startswith((str(tmp_path / "round"), "it cannot be followed: "))


@given(st.text(st.sampled_from("./\\%2eE~C:a{}"), min_size=1))
def test_no_text_leads_out_of_the_folder(text: str) -> None:
    folder = Path("some/folder")
    try:
        path = Path(below(folder, text))
    except ConfigError:
        return
    if path.is_absolute():
        assert Path(text).is_absolute()
        assert ".." not in path.parts
    else:
        assert path.resolve().is_relative_to(folder.resolve())
