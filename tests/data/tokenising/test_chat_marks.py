"""Texts that are chats already: their answers are found by the marks of model families."""

import pytest

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.tokenising.chat_marks import CHAT_MARKS, marks_of
from hotloop.data.tokenising.find_layout import layout

CHATS = {
    "ChatML": (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nd<|im_end|>\n",
        ["b<|im_end|>", "d<|im_end|>"],
    ),
    "Llama 3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nb<|eot_id|>",
        ["b<|eot_id|>"],
    ),
    "Llama 2": ("<s>[INST] a [/INST] b </s><s>[INST] c [/INST] d", [" b </s>", " d"]),
    "Gemma": (
        "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n",
        ["b<end_of_turn>"],
    ),
    "Alpaca": (
        "Below is an instruction.\n\n### Instruction:\na\n\n### Response:\nb\nc",
        ["b\nc"],
    ),
    "Guanaco": ("### Human: a### Assistant: b### Human: c### Assistant: d", ["b", "d"]),
}


@pytest.mark.parametrize("name", CHAT_MARKS)
def test_the_answers_are_what_stands_between_the_marks(name):
    text, answers = CHATS[name]
    assert marks_of([text]) is CHAT_MARKS[name]
    spans = CHAT_MARKS[name].answers(text)
    assert [text[start:end] for start, end in spans] == answers


def test_marks_are_those_of_most_texts():
    chat = CHATS["ChatML"][0]
    assert marks_of(["a story"]) is None
    assert marks_of([chat, "a story"]) is None
    assert marks_of([chat, chat, "a story", "", None]) is CHAT_MARKS["ChatML"]
    assert marks_of([]) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ChatML", "It says <|im_start|>assistant\nfoo<|im_end|>"),  # marks that are spoken of
        ("ChatML", "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<|im_end|>"),
        ("ChatML", "[INST] what is <|im_start|>assistant\nfoo [/INST] A mark.</s>"),
    ],
)
def test_what_is_no_answer_is_not_learned(name, text):
    assert CHAT_MARKS[name].answers(text) == ()


def test_a_tools_turn_is_not_the_assistants():
    turn = "<|start_header_id|>{}<|end_header_id|>\n\n"
    text = f"{turn.format('assistant')}call<|eom_id|>{turn.format('ipython')}RESULT<|eot_id|>"
    spans = CHAT_MARKS["Llama 3"].answers(text)
    assert [text[start:end] for start, end in spans] == ["call<|eom_id|>"]


def test_an_answer_without_its_mark_ends_at_the_next_turn():
    text = "<|im_start|>assistant\nb\n<|im_start|>user\nc<|im_end|>"
    spans = CHAT_MARKS["ChatML"].answers(text)
    assert [text[start:end] for start, end in spans] == ["b"]


def test_answers_carry_loss_only_where_they_are_asked_for():
    text, answers = CHATS["ChatML"]
    rows = [{"text": text}]
    found = layout(rows)
    assert (found.loss, found.marks) == ("all", "ChatML")
    (whole,) = found.texts(rows[0])
    assert whole.learned is None
    asked = layout(rows, loss="answers")
    (some,) = asked.texts(rows[0])
    assert [text[start:end] for start, end in some.learned] == answers
    with pytest.raises(DataError, match="holds no answer in ChatML's marks"):
        list(asked.texts({"text": "a story"}))


def test_answers_of_plain_texts_are_all_of_them():
    assert layout([{"text": "a"}], loss="answers").loss == "all"
    with pytest.raises(ConfigError, match="loss completion needs a response"):
        layout([{"text": "a"}], loss="completion")


def test_a_long_text_takes_no_long_time():
    begin = "<|im_start|>assistant\n"
    assert CHAT_MARKS["ChatML"].answers(begin * 20_000) == ()  # quadratic search: minutes
    text = f"### Response:\nb{chr(10) * 1_000_000}x"
    assert CHAT_MARKS["Alpaca"].answers(text) == ((14, len(text)),)
