"""Texts that are chats already: their answers are found by the marks of model families."""

import pytest

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.tokenising.chat_marks import CHAT_MARKS, marks_of
from hotloop.data.tokenising.row_shapes import layout

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


def test_plain_texts_have_no_marks():
    assert marks_of(["a story"]) is None
    assert marks_of([CHATS["ChatML"][0], "a story"]) is None
    assert marks_of([]) is None


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


def test_a_text_of_marks_alone_is_one_answer():
    text = "<|im_start|>assistant\n" * 20_000  # quadratic searching would take minutes
    (span,) = CHAT_MARKS["ChatML"].answers(text)
    assert span == (len("<|im_start|>assistant\n"), len(text))
