import math
from collections.abc import Mapping
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.config.schema import FieldRule, Plain, convert, expected, show, typed
from hotloop.core.errors import ConfigError

ANY = FieldRule(meaning="anything")
TIME = FieldRule(meaning="a time", duration=True)
KINDS = [
    int,
    float,
    bool,
    str,
    int | None,
    str | None,
    Literal["auto", "true", "false"],
    tuple[float, float],
    Mapping[str, str],
]


def read(kind: object, text: str, rule: FieldRule = ANY) -> object:
    return convert(kind, rule, Plain(text))


def refused(kind: object, raw: object, rule: FieldRule = ANY) -> str:
    with pytest.raises(ConfigError) as caught:
        convert(kind, rule, raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1E3", 1e3), (".5", 0.5), ("1.", 1.0), ("-2", -2.0), ("1_000", 1000.0)],
)
def test_numbers_are_read_as_people_write_them(text: str, value: float) -> None:
    got = read(float, text)
    assert got == value
    assert type(got) is float


@pytest.mark.parametrize(
    "text", ["nan", ".nan", "inf", "-.inf", "1e400", "e5", ".", "1:30", "", "x"]
)
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    assert "expected a number" in refused(float, Plain(text))


@pytest.mark.parametrize("text", ["4.0", "1e3", "0x10", "017", "true", "9" * 5000, "1__0", "٣"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    assert "expected a whole number" in refused(int, Plain(text))


def test_an_integer_beyond_64_bits_is_refused() -> None:
    assert read(int, str(2**63 - 1)) == 2**63 - 1
    refused(int, 2**63)
    refused(float, 10**400)


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "1", "0", "tRue"])
def test_only_true_and_false_are_truth_values(word: str) -> None:
    assert refused(bool, Plain(word)) == f"expected true or false, got {word}"


@pytest.mark.parametrize(
    "word", ["on", "2024", "1e-3", "true", "2026-11-20", "C:\\x", "#1.txt", "a: b"]
)
def test_a_text_field_takes_words_as_they_stand(word: str) -> None:
    got = read(str | None, word)
    assert got == word
    assert type(got) is str


def test_quoted_text_is_text_only() -> None:
    assert convert(str | None, ANY, "null") == "null"
    assert read(str | None, "null") is None
    assert "got '3'" in refused(int, "3")


@pytest.mark.parametrize("raw", [True, 1.0, "1", [1], {}, Plain("null"), None])
def test_values_of_another_type_are_no_integer(raw: object) -> None:
    refused(int, raw)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("11h", 39600), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("1.5h", 5400), ("2d", 172800),
     ("600", 600), ("0.5", 0.5), ("1h30m0.5s", 5400.5)],
)  # fmt: skip
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert read(float, text, TIME) == seconds


def test_a_quoted_duration_needs_its_unit() -> None:
    assert convert(float, TIME, "90m") == 5400
    assert "got '90'" in refused(float, "90", TIME)


@pytest.mark.parametrize("text", ["", "h", "1h1h", "30m1h", "1..5h", "-1h", "1 h", "1w", "1e999h"])
def test_other_durations_are_refused(text: str) -> None:
    assert "like 45s, 90m, 1h30m" in refused(float, Plain(text), TIME)


@given(st.integers(0, 10**7))
@settings(max_examples=100)
def test_a_duration_reads_back_as_it_is_shown(seconds: int) -> None:
    assert read(float, typed(float(seconds), TIME), TIME) == seconds


def test_a_range_names_its_ends() -> None:
    share = FieldRule(meaning="", low=0, low_open=True, high=1)
    factor = FieldRule(meaning="", low=0, high=1, high_open=True)
    assert refused(float, Plain("0"), share) == "expected a number above 0 up to 1, got 0"
    assert refused(float, Plain("1"), factor) == "expected a number from 0 below 1, got 1"
    assert (read(float, "1", share), read(float, "0", factor)) == (1.0, 0.0)
    assert refused(int | None, Plain("0"), FieldRule(meaning="", low=1)) == (
        "expected a whole number from 1 or null, got 0"
    )


def test_a_pair_checks_length_type_and_range_of_each() -> None:
    rule = FieldRule(meaning="", low=0, high=1, high_open=True)
    pair = tuple[float, float]
    assert convert(pair, rule, [Plain("0.9"), 0.99]) == (0.9, 0.99)
    for raw in (
        [0.9],
        [0.9, 0.9, 0.9],
        [0.9, "x"],
        [0.9, 0.9, "x"],
        [0.9, 1.0],
        Plain("0.9"),
        [0.9, [0.9]],
    ):
        assert refused(pair, raw, rule).startswith("expected a list of 2 numbers from 0 below 1")


def test_a_choice_lists_what_there_is_and_suggests() -> None:
    assert refused(Literal["fp32", "bf16"], Plain("bf61")) == (
        "expected one of fp32, bf16, got bf61; did you mean bf16?"
    )
    rule = FieldRule(meaning="", choices=("t4", "rtx4090"))
    assert refused(str, Plain("rtx409"), rule).endswith("did you mean rtx4090?")
    assert read(str | None, "null", rule) is None


@pytest.mark.parametrize("raw", [True, Plain("true"), Plain("True"), "true"])
def test_a_truth_value_may_be_a_choice(raw: object) -> None:
    assert convert(Literal["auto", "true", "false"], ANY, raw) == "true"


def test_a_map_holds_text_only() -> None:
    sets = {"a": Plain("on"), "b": "2.txt"}
    assert convert(Mapping[str, str], ANY, sets) == {"a": "on", "b": "2.txt"}
    for raw in ({"a": None}, {"a": 1}, {"a": {}}, {"": "x"}, Plain("x"), [1]):
        assert "expected a map" in refused(Mapping[str, str], raw)


@pytest.mark.parametrize("raw", ["a\0b", "\x1b[31mred", "a\nb", "\x7f", "\udcff"])
@pytest.mark.parametrize("form", [Plain, str])
def test_control_characters_are_refused_and_never_repeated(raw: str, form: type[str]) -> None:
    message = refused(str, form(raw))
    assert message.isprintable()
    assert raw not in message
    assert "which no path or name here may hold" in message
    assert refused(Mapping[str, str], {"a": form(raw)}) == message
    assert refused(Mapping[str, str], {form(raw): "a"}) == message


@pytest.mark.parametrize("text", ["${oc.env:HOME}", "a${b}", "${"])
def test_interpolation_is_refused(text: str) -> None:
    assert "is an interpolation, which is not read" in refused(str | None, Plain(text))
    assert "is an interpolation, which is not read" in refused(str | None, text)


def test_text_that_names_code_stays_text() -> None:
    assert read(str, "!!python/object/apply:os.system") == "!!python/object/apply:os.system"
    assert read(str, "_target_") == "_target_"


def test_a_type_outside_the_list_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        expected(int | str | None, ANY)


def test_messages_shorten_long_values() -> None:
    assert len(refused(int, Plain("x" * 10_000))) < 120
    assert len(refused(int, ["x" * 100] * 100)) < 120


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (0.1, "0.1"), ((0.9, 0.99), "[0.9, 0.99]"), ("null", "'null'"),
     ({"a": "b.txt"}, "{a: b.txt}"), ("a b", "a b"), ("[x]", "'[x]'"), ("\u202e", "'\\u202e'")],
)  # fmt: skip
def test_values_are_shown_as_they_would_be_typed(value: object, text: str) -> None:
    assert typed(value) == text


raw_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text().map(Plain),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(KINDS),
    st.sampled_from([ANY, TIME, FieldRule(meaning="", low=0, high=9)]),
    raw_values,
)
@settings(max_examples=100, deadline=None)
def test_anything_becomes_a_value_of_its_type_or_a_config_error(
    kind: object, rule: FieldRule, raw: object
) -> None:
    if rule.duration:
        kind = float
    error = value = None
    try:
        value = convert(kind, rule, raw)
    except ConfigError as caught:
        error = caught
    assert show(value).isprintable()
    assert str(error).isprintable()
    if error is not None:
        return
    if isinstance(value, float):
        assert math.isfinite(value)
    assert convert(kind, rule, value) == value
