"""Rows become texts, and what of them carries loss."""

import pytest

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.tokenising.chat_templates import ALPACA, CHATML, Template
from hotloop.data.tokenising.find_layout import detect, layout

CHATML_TEMPLATE = Template(source=CHATML)


def texts(row, template=None, **asked):
    return list(layout([row], **asked).texts(row, template))


def learned(text):
    return [text.text[start:end] for start, end in text.learned]


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ({"text": "a"}, "text"),
        ({"content": "a", "n": 1}, "text"),
        ({"messages": []}, "chat"),
        ({"conversations": []}, "chat"),
        ({"prompt": "a", "completion": "b"}, "prompt"),
        ({"question": "a", "answer": "b"}, "prompt"),
        ({"instruction": "a", "input": "", "output": "b"}, "instruction"),
        ({"instruction": "a", "instances": []}, "instruction"),
        ({"sentence1": "a", "sentence2": "b", "label": 0}, "pair"),
        ({"text": "a", "label": 0}, "text"),
        ({"id": 1}, None),
    ],
)
def test_the_shape_is_what_the_keys_are_usually_used_for(row, shape):
    assert detect(row) == shape


def test_a_plain_text_carries_loss_whole():
    (text,) = texts({"text": "one two"})
    assert (text.text, text.learned, text.pair) == ("one two", None, None)


def test_of_a_prompt_and_its_response_only_the_response_carries_loss():
    (text,) = texts({"prompt": "2+2?", "response": "4"})
    assert text.text == "2+2?\n4"
    assert learned(text) == ["4"]
    (joined,) = texts({"prompt": "2+2? ", "response": "4"})
    assert joined.text == "2+2? 4"  # a space stands between them already
    (whole,) = texts({"prompt": "2+2?", "response": "4"}, loss="all")
    assert whole.learned is None


def test_an_instruction_with_instances_is_a_text_for_each():
    row = {
        "instruction": "Add.",
        "instances": [{"input": "1 2", "output": "3"}, {"input": "", "output": "0"}],
    }
    first, second = texts(row)
    assert (first.text, learned(first)) == ("Add.\n\n1 2\n\n3", ["3"])
    assert (second.text, learned(second)) == ("Add.\n\n0", ["0"])


def test_chat_in_both_spellings_is_the_same_text():
    one = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    other = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    (first,), (second,) = texts(one, CHATML_TEMPLATE), texts(other, CHATML_TEMPLATE)
    assert first == second
    assert learned(first) == ["b<|im_end|>"]
    assert first.is_rendered


def test_a_pair_keeps_its_label_and_a_task_goes_along():
    (pair,) = texts({"premise": "a", "hypothesis": "b", "label": 2, "task": "nli"})
    assert (pair.text, pair.pair, pair.label, pair.task) == ("a", "b", 2, "nli")


def test_sentences_in_a_list_are_one_text():
    row = {"source": ["One.", "Two."], "target": ["Short."]}
    (text,) = texts(row, fields={"prompt": "source", "response": "target"})
    assert text.text == "One. Two.\nShort."


@pytest.mark.parametrize(
    ("row", "asked", "said"),
    [
        ({"id": 1}, {}, "the rows have 'id'.*--fields text=KEY"),
        ({"prompt": "a"}, {"shape": "prompt"}, "needs response.*'prompt'"),
        ({}, {}, "no keys"),
    ],
)
def test_rows_that_lack_what_is_needed_are_named(row, asked, said):
    with pytest.raises(DataError, match=said):
        layout([row], **asked)


@pytest.mark.parametrize("first", [{}, {"label": None}, {"label": float("nan")}])
def test_the_first_label_that_is_one_tells_what_labels_are(first):
    rows = [{"text": "a", **first}, {"text": "b", "label": 3}]
    found = layout(rows)
    assert (found.fields["label"], found.labels) == ("label", "int64")
    assert next(found.texts(rows[1])).label == 3
    with pytest.raises(DataError, match="key 'label'"):
        list(found.texts(rows[0]))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "a?", "response": "b"},
        {"instruction": "a?", "output": "b"},
        {"instruction": "a?", "instances": [{"input": "", "output": "b"}]},
    ],
)
def test_with_a_template_a_prompt_and_its_answer_are_a_chat(row):
    (text,) = texts(row, CHATML_TEMPLATE)
    assert text.text == "<|im_start|>user\na?<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
    assert learned(text) == ["b<|im_end|>"]
    assert text.is_rendered
    (whole,) = texts(row, CHATML_TEMPLATE, loss="all")
    assert (whole.text, whole.learned) == (text.text, None)
    asked = layout([row]).asks("c?", CHATML_TEMPLATE)
    assert asked.text == "<|im_start|>user\nc?<|im_end|>\n<|im_start|>assistant\n"


def test_alpacas_template_places_the_input_of_an_instruction():
    template = Template(source=ALPACA, names={"eos_token": "</s>"})
    (text,) = texts({"instruction": "i", "input": "c", "output": "o"}, template)
    assert text.text == (
        "Below is an instruction that describes a task, paired with an input that provides further "
        "context. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\ni\n\n### Input:\nc\n\n### Response:\no</s>"
    )
    assert learned(text) == ["o</s>"]
    (short,) = texts({"instruction": "i", "input": "", "output": "o"}, template)
    assert short.text.endswith("request.\n\n### Instruction:\ni\n\n### Response:\no</s>")


def test_alpacas_template_refuses_a_system_message():
    chat = {"messages": [{"role": r, "content": r} for r in ("system", "user", "assistant")]}
    with pytest.raises(DataError, match="a prompt of Alpaca has no system message"):
        texts(chat, Template(source=ALPACA, names={"eos_token": "</s>"}))


def test_with_a_template_an_empty_answer_is_still_refused():
    row = {"prompt": "a", "response": " "}
    with pytest.raises(DataError, match="'response' is empty"):
        list(layout([row]).texts(row, CHATML_TEMPLATE))


def test_what_the_first_row_lacks_is_not_lost_from_the_others():
    rows = [{"instruction": "a", "output": "b"}, {"instruction": "a", "input": "c", "output": "b"}]
    first, second = ([text.text for text in layout(rows).texts(row)] for row in rows)
    assert (first, second) == (["a\n\nb"], ["a\n\nc\n\nb"])


def test_a_first_row_of_no_use_does_not_decide_for_the_others():
    rows = [{"id": 1}, {"body": "x"}, {"text": "a"}]
    found = layout(rows)
    assert found.shape == "text"
    with pytest.raises(DataError, match="key 'text' is missing; the row has 'id'"):
        list(found.texts(rows[0]))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"shape": "chats"}, "unknown; did you mean chat"),
        (
            {"fields": {"txt": "text"}, "shape": "text"},
            "no row has a part 'txt'; did you mean text",
        ),
        ({"loss": "half"}, "loss 'half' is unknown"),
        ({"loss": "assistant"}, "is for chat rows"),
        ({"loss": "completion"}, "rows of shape text have none"),
    ],
)
def test_settings_that_cannot_be_are_refused(asked, said):
    with pytest.raises(ConfigError, match=said):
        layout([{"text": "a"}], **asked)


@pytest.mark.parametrize(
    ("first", "row", "said"),
    [
        ({"text": "a"}, {"body": "b"}, "key 'text' is missing; the row has 'body'"),
        ({"text": "a"}, {"text": None}, "must hold text, not nothing"),
        ({"text": "a"}, {"text": 3}, "must hold text, not a whole number"),
        ({"text": "a"}, {"text": " \n"}, "'text' is empty"),
        ({"prompt": "a", "response": "b"}, {"prompt": "a", "response": ""}, "'response' is empty"),
        ({"text": "a", "label": 1}, {"text": "a", "label": "x"}, "'x', but the first rows' labels"),
        ({"text": "a", "label": 1}, {"text": "a", "label": float("nan")}, "not a fraction"),
        ({"text": "a", "label": 1}, {"text": "a", "label": 2.0}, "a whole number, not a fraction"),
        ({"text": "a", "label": 1}, {"text": "a", "label": None}, r"not nothing \(null\)"),
        ({"text": "a", "label": 1}, {"text": "a", "label": True}, "not true or false"),
        ({"text": "a", "label": 1}, {"text": "a", "label": 1 << 63}, "of more than 64 bits"),
        ({"text": "a", "label": 1}, {"text": "a"}, "key 'label' is missing; the row has 'text'"),
        ({"text": "a", "label": "b"}, {"text": "a", "label": " "}, "key 'label' is empty"),
        ({"messages": [1]}, {"messages": "hi"}, "must hold a list of messages, not text"),
        ({"messages": [1]}, {"messages": [{"role": "user"}]}, r"messages\[0\] must hold a role"),
        (
            {"messages": [1]},
            {"messages": [{"role": "user", "content": "a"}]},
            "no message of an assistant",
        ),
        (
            {"messages": [1]},
            {"messages": [{"role": "assistant", "content": "\n"}]},
            "only empty messages of an assistant",
        ),
        (
            {"instruction": "a", "instances": [1]},
            {"instruction": "a", "instances": [{"input": "b"}]},
            r"instances\[0\] must hold an output",
        ),
    ],
)
def test_a_row_that_cannot_be_used_says_its_key(first, row, said):
    with pytest.raises(DataError, match=said):
        list(layout([first]).texts(row, CHATML_TEMPLATE))
