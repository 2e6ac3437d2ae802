"""Chat templates and what an assistant says in them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.tokenising.chat_templates import CHATML, Template

CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes."},
]


def test_chatml_is_as_it_was_published():
    text = Template(source=CHATML).render(CHAT[1:3], asks=True)
    assert text == (
        "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_answers_carry_loss_with_their_end_mark_and_nothing_else_does():
    text, spans = Template(source=CHATML).answers(CHAT)
    assert [text[start:end] for start, end in spans] == ["4<|im_end|>", "Yes.<|im_end|>"]


def test_a_tokenizers_own_template_has_its_special_tokens():
    source = (
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}"
        "[A]{{ m['content'] }}{{ eos_token }}{% else %}[U]{{ m['content'] }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}[A]{% endif %}"
    )
    own = Template(source=source, names={"bos_token": "<s>", "eos_token": "</s>"})
    text, spans = own.answers(CHAT[1:])
    assert text == "<s>[U]2+2?[A]4</s>[U]Sure?[A]Yes.</s>"
    assert [text[start:end] for start, end in spans] == ["4</s>", "Yes.</s>"]


def test_a_template_that_rewrites_earlier_messages_is_refused_for_loss_of_answers():
    source = "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}"
    with pytest.raises(
        DataError, match=r"in another way when more follow.*take the template chatml"
    ):
        Template(source=source).answers(CHAT)


def test_a_template_that_is_no_jinja_is_a_setting_that_is_wrong():
    with pytest.raises(ConfigError, match="not valid Jinja, line 1"):
        Template(source="{% for %}").render(CHAT)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "is unsafe"),
        ("{{ 1 // 0 }}", "division"),
        ("{% for a in range(10**9) %}{% endfor %}", "Range too big"),
    ],
)
def test_what_a_template_refuses_or_must_not_do_is_an_error_of_the_data(source, said):
    with pytest.raises(DataError, match=said):
        Template(source=source).render(CHAT)


def test_equal_templates_have_one_fingerprint():
    one = Template(source=CHATML, names={"eos_token": "a"})
    assert one.fingerprint == Template(source=CHATML, names={"eos_token": "a"}).fingerprint
    assert one.fingerprint != Template(source=CHATML, names={"eos_token": "b"}).fingerprint
    assert one.fingerprint != Template(source=CHATML + " ", names={"eos_token": "a"}).fingerprint


MANY = "{% for b in range(9999) %}" * 3 + "{% endfor %}" * 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (MANY, "its loops make more than 5,000,000 turns"),
        ("{% macro f() %}" + MANY + "{% endmacro %}{{ f() }}", "more than 5,000,000 turns"),
        ("{{ 'ab' * 999999999999 }}", "more than 100,000,000 characters"),
        ("{{ 9 ** 999999999 }}", "more than 100,000,000 characters"),
        ("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "recursion"),
    ],
)
def test_a_template_without_an_end_is_refused(source, said):
    with pytest.raises(ConfigError, match=said):
        Template(source=source).render(CHAT)


def test_loops_know_their_place_and_have_turns_anew_for_each_text():
    each = "{{ loop.index }}/{{ loop.length }}{{ ';' if not loop.last }}"
    source = f"{{% for m in messages %}}{each}{{% endfor %}}"
    template = Template(source=source)
    for _ in range(3):
        assert template.render(CHAT) == "1/5;2/5;3/5;4/5;5/5"


def test_loops_in_order_of_threads_are_counted_apart():
    template = Template(
        source="{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}x"
    )
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(template.render, [CHAT, CHAT])) == ["x", "x"]
