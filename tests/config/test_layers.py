import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.config.layers import (
    COMMAND_LINE,
    SettingsLayer,
    parse_assignments,
    parse_json,
    parse_yaml,
    read_config,
)
from hotloop.config.schema import Plain
from hotloop.core.errors import ConfigError, HotloopError, UsageError


def values(text: str) -> dict[str, object]:
    return dict(parse_yaml(text.encode(), "my.yaml").values)


def refused(text: str | bytes, parse: object = parse_yaml) -> str:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(ConfigError) as caught:
        (parse_yaml if parse is parse_yaml else parse_json)(data, "my.cfg")
    return str(caught.value)


def test_assignments_keep_what_was_typed() -> None:
    layer = parse_assignments(["a.b=1e-3", "c=x=y", "path=my file #1: a.txt", "on=on"])
    assert layer.values == {"a.b": "1e-3", "c": "x=y", "path": "my file #1: a.txt", "on": "on"}
    assert all(isinstance(value, Plain) for value in layer.values.values())
    assert layer.requested
    assert layer.where("a.b") == COMMAND_LINE


def test_lists_maps_and_quoted_text_are_read_as_yaml() -> None:
    layer = parse_assignments(["betas=[0.9, 0.95]", "data.sets={s: a.txt, 't': b}", 'p="null"'])
    assert layer.values == {
        "betas": ["0.9", "0.95"],
        "data.sets.s": "a.txt",
        "data.sets.t": "b",
        "p": "null",
    }
    assert not isinstance(layer.values["p"], Plain)


@pytest.mark.parametrize("arg", ["batch_size", "=", "=4", "--x", "\x1b[31m"])
def test_an_argument_that_assigns_nothing_is_named(arg: str) -> None:
    with pytest.raises(UsageError, match="key=value") as caught:
        parse_assignments(["seed=1", arg])
    assert str(caught.value).isprintable()


def test_an_empty_value_is_refused_because_it_is_mostly_an_unset_shell_variable() -> None:
    with pytest.raises(ConfigError, match=r"data\.path has no value; null unsets it"):
        parse_assignments(["data.path="])


@pytest.mark.parametrize(
    "value", ["[1", "{a", "'tis", '"', "[&a 1]", "[*a]", "[!!python/name:os.system ]", "[" * 5000,
              "[1]\n---\n[2]", '"\udcff"', "{a: 1}}"]
)  # fmt: skip
def test_a_broken_list_on_the_command_line_says_how_to_quote(value: str) -> None:
    with pytest.raises(ConfigError, match="quote it once more") as caught:
        parse_assignments([f"data.path={value}"])
    assert str(caught.value).startswith("command line: data.path: ")


@pytest.mark.parametrize(
    "args",
    [["a.b=1", "a.b=1"], ["a={b: 1}", "a.b=2"], ["a={b: 1}", "a={c: 1}"], ["a={b: 1, b: 2}"]],
)
def test_a_key_given_twice_on_the_command_line_is_refused(args: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^command line: a(\.b)? stands twice"):
        parse_assignments(args)


def test_yaml_values_know_their_line() -> None:
    layer = parse_yaml(
        b"# c\nseed: 1\ntraining:\n  lr: 1e-3\n  betas: [0.9,\n    0.95]\n", "my.yaml"
    )
    assert layer.values == {"seed": "1", "training.lr": "1e-3", "training.betas": ["0.9", "0.95"]}
    assert layer.where("training.lr") == "my.yaml:4"
    assert layer.where("training.betas") == "my.yaml:5"


def test_unquoted_words_stay_words_until_a_field_reads_them() -> None:
    got = values("a: on\nb: 'on'\nc: 1:30\nd: 017\ne: 2026-11-20\nf:\ng: ~\n")
    assert [str(got[key]) for key in "abcde"] == ["on", "on", "1:30", "017", "2026-11-20"]
    assert (isinstance(got["a"], Plain), isinstance(got["b"], Plain)) == (True, False)
    assert got["f"] is None


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "\ufeff"])
def test_an_empty_file_sets_nothing(text: str) -> None:
    assert values(text) == {}


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    assert values("\ufeffa: 1\r\nb:\r\n  c: 2\r\n") == {"a": "1", "b.c": "2"}
    assert parse_json("\ufeff{}".encode(), "my.json").values == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "my.cfg:3: a stands twice (first: my.cfg:1); keep one"),
        ("a: {b: 1}\na: {c: 1}", "my.cfg:2: a stands twice"),
        ("a.b: 1\na:\n  b: 2", "my.cfg:3: a.b stands twice (first: my.cfg:1)"),
        ("a: 1\n'a': 3", "my.cfg:2: a stands twice"),
        ("a: &x 1\nb: *x", "my.cfg:1: anchors (&) and aliases (*) are not read"),
        ("a: *x", "my.cfg:1: anchors (&) and aliases (*) are not read"),
        ("&x a: 1", "anchors (&)"),
        ("a: 1\n--- \nb: 2", "my.cfg:2: a second document starts; keep one"),
        ("a: 1\n...\nb", "my.cfg:3"),
        ("a: !!str 1", "my.cfg:1: the tag 'tag:yaml.org,2002:str' is not read"),
        ("a: !env HOME", "my.cfg:1: the tag '!env' is not read"),
        ("%TAG ! tag:x,2000:\n---\na: !b c", "the tag"),
        ("[1, 2]", "expected a map of settings, got a list"),
        ("training", "expected a map of settings, got training"),
        ("a: [1, [2]]", "my.cfg:1: a: a list may hold single values only"),
        ("? [a]\n: 1", "my.cfg:1: a key must be text"),
        ("a: 1\n b: 2", "my.cfg:2: not valid YAML: mapping values are not allowed"),
        ("a: \x1b[31m", "not valid YAML: unacceptable character #x001b"),
        ("a: " + "[" * 100_000, "my.cfg:1: nested deeper than 16 levels"),
        ("a:\n" + "".join(f"{' ' * n}- \n" for n in range(50)), "nested deeper than 16 levels"),
        ("a: " + "x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_yaml_that_is_refused(text: str, message: str) -> None:
    assert message in refused(text)


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise(names)]
    assert refused("\n".join(lines)).startswith("my.cfg:1: anchors")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:pathlib.Path.touch [[{0}]]",
        "!!python/object/apply:os.system ['touch {0}']",
        "!!python/object/new:os.system ['touch {0}']",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!!python/object/apply:pathlib.PosixPath ['{0}']",
    ],
)
def test_python_tags_are_refused_and_run_nothing(value: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    assert "the tag 'tag:yaml.org,2002:python/" in refused("a: " + value.format(canary))
    assert not canary.exists()


def test_the_pure_python_parser_agrees_where_libyaml_is_missing() -> None:
    text = "a: 1\nb: 'x'\nc: [1, 2]\nd:\n"
    events = [repr(event) for event in yaml.parse(text, Loader=yaml.SafeLoader)]
    assert events == [repr(event) for event in yaml.parse(text, Loader=yaml.CSafeLoader)]


def test_json_values_keep_their_types() -> None:
    layer = parse_json(b'{"a": {"b": 1, "c": "1"}, "d": null, "e": [0.9], "f": {}}', "my.json")
    assert layer.values == {"a.b": 1, "a.c": "1", "d": None, "e": [0.9], "f": {}}
    assert layer.where("a.b") == "my.json:1"


def test_json_keys_know_their_line_whatever_stands_in_texts() -> None:
    text = """{"a {": "}\\n\\"x\\": [{", "b"

    : {"c": [1,
      2], "d": {},
    "e": {"f": null, "g": "\\\\"}}, "h": {}, "i": [],
    "j": -1.5e3}"""
    layer = parse_json(text.encode(), "my.json")
    lines = {key: layer.where(key).removeprefix("my.json:") for key in layer.values}
    keys = ["a {", "b.c", "b.d", "b.e.f", "b.e.g", "h", "i", "j"]
    assert lines == dict(zip(keys, "13455556", strict=True))
    assert layer.values["j"] == -1500


json_keys = st.text(st.sampled_from('ab"\\{}:,\n'), min_size=1)
json_maps = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(json_keys, inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@given(json_maps)
@settings(max_examples=100, deadline=None)
def test_every_json_key_is_found_on_the_line_it_stands_on(root: object) -> None:
    text = json.dumps(root, indent=1)
    layer = outcome(lambda: parse_json(text.encode(), "x"))
    if isinstance(
        layer, SettingsLayer
    ):  # or it is nested too deep, or two keys are alike with dots
        for key in layer.values:
            line = text.splitlines()[int(layer.where(key).removeprefix("x:")) - 1]
            assert line.strip().startswith(json.dumps(key.rpartition(".")[2]) + ":")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 1}', "my.cfg:1: a stands twice"),
        ('{"a": {"b": 1, "b": 2}}', "my.cfg:1: a.b stands twice"),
        ('{"a": {"b": 1}, "a.b": 2}', "my.cfg:1: a.b stands twice"),
        ('{"a": 1,\n"b": 2, "a": 1}', "my.cfg:2: a stands twice (first: my.cfg:1)"),
        ('{"a": "NaN",\n"b": NaN}', "my.cfg:2: not valid JSON: NaN is not JSON"),
        ('{"a": "x",\n"b":\n-Infinity}', "my.cfg:3: not valid JSON: -Infinity is not JSON"),
        ('{"a":\n 1,}', "my.cfg:2: not valid JSON"),
        ("", "my.cfg:1: not valid JSON"),
        ("[]", "expected a map of settings, got a list"),
        ("null", "expected a map of settings, got null"),
        ('{"a":\n' + "9" * 5000 + "}", "my.cfg:2: not valid JSON: 9999"),
        ("\n" + "[" * 100_000, "my.cfg:2: not valid JSON: nested too deep"),
        (
            '{"a": ' * 50 + "1" + "}" * 50,
            "my.cfg:1: a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a. is nested too deep",
        ),
        ('{\n"a": ' + "[" * 500 + "]" * 500 + "}", "my.cfg:2: a: a list may hold single values"),
        (b"\xff\xfe{\0", "my.cfg:1: not UTF-8 (byte 0)"),
    ],
)
def test_json_that_is_refused(text: str | bytes, message: str) -> None:
    assert message in refused(text, parse_json)


def test_a_file_is_read_by_its_suffix(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yml", "c.JSON"):
        path = tmp_path / name
        path.write_text('{"a": 1}')
        assert str(read_config(path).values["a"]) == "1"
        assert read_config(path).where("a").startswith(str(path))


@pytest.mark.parametrize("name", ["a.py", "a.toml", "yaml", "a.pkl"])
def test_another_suffix_is_refused_unread(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a \.yaml, \.yml or \.json file"):
        read_config(tmp_path / name)


@pytest.mark.parametrize("name", ["absent.yaml", "a\0b.yaml", "folder.yaml", "\x1b[31m.yaml"])
def test_a_file_that_cannot_be_read_is_a_config_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        read_config(tmp_path / name)
    assert str(caught.value).isprintable()


def test_an_endless_file_is_read_to_the_limit_only(tmp_path: Path) -> None:
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_config(tmp_path / "zero.yaml")


def outcome(call: Callable[[], SettingsLayer]) -> SettingsLayer | HotloopError:
    try:
        return call()
    except HotloopError as caught:
        error = caught
    assert str(error).isprintable()
    return error


yaml_like = st.text(
    st.sampled_from("ab:.-?{}[],&*!|>'\"%@`#\n \t\\0${}~<=\x00\x1b\x85\u2028é\ud800")
)


@given(st.binary() | yaml_like.map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_layer_or_a_config_error(data: bytes) -> None:
    for parse in (parse_yaml, parse_json):
        assert isinstance(
            outcome(lambda parse=parse: parse(data, "x")), SettingsLayer | ConfigError
        )


@given(st.lists(st.text() | yaml_like.map(lambda text: f"a={text}"), max_size=3))
@settings(max_examples=100, deadline=None)
def test_any_arguments_are_a_layer_or_an_error_of_ours(args: list[str]) -> None:
    assert isinstance(
        outcome(lambda: parse_assignments(args)), SettingsLayer | UsageError | ConfigError
    )
