"""Make texts of rows: which field is what, what joins them, and which characters carry loss.

Shapes: text (one field), prompt (a prompt and its response), instruction (an instruction with one
input and output, or with a list of instances), chat (messages), pair (two texts for an encoder).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard

from hotloop.core.errors import DataError
from hotloop.data.tokenising.chat_marks import CHAT_MARKS
from hotloop.data.tokenising.chat_templates import kind_of, messages_of
from hotloop.data.tokenising.public_sets import rows_within, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hotloop.data.tokenising.chat_templates import Span, Template

__all__ = ["Loss", "RowLayout", "Shape", "Text", "is_label", "keys_of_row"]

Shape = Literal["text", "prompt", "instruction", "chat", "pair"]
_LONGEST: Final = 40  # characters of a key in a message
Loss = Literal["all", "completion", "assistant"]  # the part of a text that carries loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A row as text, ready to be turned into tokens."""

    text: str
    pair: str | None = None  # the second text of a pair
    learned: tuple[Span, ...] | None = None  # characters that carry loss; None: all
    is_rendered: bool = False  # True: a template gave it its special tokens, so none are added
    label: str | int | None = None
    task: str | None = None
    report: str | None = None  # what its score is reported by
    is_first: bool = True  # False: the document began in an earlier text
    is_last: bool = True  # False: the document continues in the next text


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """How to read rows: found on a sample by `layout`, and the same for every row."""

    shape: Shape
    fields: Mapping[str, str]  # part of the shape -> key of the row
    loss: Loss
    labels: Literal["int64", "string"] = "string"  # the type of labels, if there are any
    joint: str | None = None  # between the texts of a pair, if the tokenizer puts nothing there
    marks: str | None = None  # of the chats that plain texts hold: a name in CHAT_MARKS
    public: str | None = None  # the name of the public set that the rows are of
    within: tuple[str, ...] = ()  # the lists of a record that hold its rows, from the outside in
    unlabelled: tuple[str | int, ...] = ()  # labels that stand for none
    unanswered: str | None = None  # what is learned of a row whose answers are an empty list

    def texts(self, row: Mapping[str, Any], template: Template | None = None) -> Iterator[Text]:
        """Return the texts of a record. Raises DataError, with the key, for a row without use.

        Chat rows need the template that renders messages. With one, a prompt or instruction is the
        message of a user, and its answer that of an assistant.
        """
        if not self.within:
            return self._texts(row, template)
        rows = rows_within(row, tuple(self.within))
        return (text for inner in rows for text in self._texts(inner, template))

    def _texts(self, row: Mapping[str, Any], template: Template | None) -> Iterator[Text]:
        label, task = self._label(row), self.optional(row, "task")
        by = self.optional(row, "report")
        for text in _MAKERS[self.shape](self, row, template):
            learned = None if self.loss == "all" else text.learned
            if learned is text.learned and label is None and task is None and by is None:
                yield text  # a copy would take a third of the time
            else:
                yield replace(text, learned=learned, label=label, task=task, report=by)

    def asks(self, question: str, template: Template | None = None) -> Text:
        """Return a question in the form of the rows, up to where its answer begins.

        For plain text it is the beginning of the text; chat rows need the template. Raises
        DataError for rows without answers.
        """
        if self.shape == "pair":
            raise DataError("pairs have no answers that could be asked for")
        if template is not None:
            messages = [{"role": "user", "content": question}]
            return Text(text=template.render(messages, asks=True), is_rendered=True)
        if self.shape == "instruction":
            return Text(text=_instruction_prompt(question, None))
        if self.shape == "text" or not question or question[-1].isspace():
            return Text(text=question)
        return Text(text=f"{question}\n")

    def text(self, row: Mapping[str, Any], part: str) -> str:
        """Return the text of a row for a part; DataError names the key."""
        key = self.fields[part]
        value = row[key] if key in row else self._present(row, key)
        if (
            isinstance(value, list)
            and value
            and all(isinstance(sentence, str) for sentence in value)
        ):
            value = " ".join(value)  # sentences of one text
        if not isinstance(value, str):
            raise DataError(f"key {key!r} must hold text, not {kind_of(value)}")
        return value

    def optional(self, row: Mapping[str, Any], part: str) -> str | None:
        """Return the text of a part that a row may lack, or None."""
        key = self.fields.get(part)
        value = None if key is None else value_at(row, key)
        if part == "report" and isinstance(value, int | float):
            return str(value)
        return None if value is None else self.text(row, part)

    def _present(self, row: Mapping[str, Any], key: str) -> Any:
        """Return the value at a path. Raises DataError where the row has none."""
        value = value_at(row, key)
        if value is None and key not in row:
            is_there = key.partition(".")[0] in row
            if is_there and self.unanswered is not None and key == self.fields.get("output"):
                return self.unanswered
            why = "holds nothing" if is_there else "is missing"
            raise DataError(f"key {key!r} {why}; the row has {keys_of_row(row)}")
        return value

    def _label(self, row: Mapping[str, Any]) -> str | int | None:
        key = self.fields.get("label")
        if key is None:
            return None
        value = row[key] if key in row else self._present(row, key)
        if is_label(value) and value in self.unlabelled:
            raise DataError(f"key {key!r} is {value!r}, which means no label")
        if not is_label(value):
            raise DataError(
                f"key {key!r} must hold a label, text or a whole number, not {kind_of(value)}"
            )
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise DataError(f"key {key!r} holds a number of more than 64 bits, which is no label")
        if isinstance(value, int) != (self.labels == "int64"):
            usual = "numbers" if self.labels == "int64" else "texts"
            raise DataError(f"key {key!r} is {value!r}, but the first rows' labels are {usual}")
        if isinstance(value, str) and not value.strip():
            raise DataError(f"key {key!r} is empty: it must hold a label")
        return value


def is_label(value: object) -> TypeGuard[str | int]:
    """Return whether a value can be a label."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def keys_of_row(row: Mapping[str, Any]) -> str:
    """Return the first keys of a row, for messages."""
    keys = list(row)
    is_counted = bool(keys) and keys == list(map(str, range(len(keys))))
    shown = (repr(key if len(key) <= _LONGEST else f"{key[:_LONGEST]}…") for key in keys[:12])
    return (", ".join(shown) or "no keys") + " (positions)" * is_counted


def _plain(self: RowLayout, row: Mapping[str, Any], _: object) -> Iterator[Text]:
    text = _filled(self.text(row, "text"), self.fields["text"])
    if self.marks is None or self.loss == "all":
        yield Text(text=text)
        return
    spans = CHAT_MARKS[self.marks].answers(text)
    if not spans:
        raise DataError(f"key {self.fields['text']!r} holds no answer in {self.marks}'s marks")
    yield Text(text=text, learned=spans)


def _pair(self: RowLayout, row: Mapping[str, Any], _: object) -> Iterator[Text]:
    first = _filled(self.text(row, "text_a"), self.fields["text_a"])
    second = self.optional(row, "text_b")
    if self.joint is None or second is None:
        yield Text(text=first, pair=second)
    else:
        yield Text(text=f"{first}{self.joint}{second}")


def _prompt(self: RowLayout, row: Mapping[str, Any], template: Template | None) -> Iterator[Text]:
    prompt, response = self.text(row, "prompt"), self.text(row, "response")
    yield _prompt_and_response(prompt, response, self.fields["response"], template)


def _instruction(
    self: RowLayout, row: Mapping[str, Any], template: Template | None
) -> Iterator[Text]:
    instruction = self.text(row, "instruction")
    if "instances" not in self.fields:
        context = self.optional(row, "input")
        answer = self.text(row, "output")
        yield _prompt_and_response(
            _instruction_prompt(instruction, context),
            answer,
            self.fields["output"],
            template,
            {"instruction": instruction, "input": context or ""},
        )
        return
    key = self.fields["instances"]
    instances = row.get(key)
    if not isinstance(instances, list) or not instances:
        raise DataError(f"key {key!r} must hold a list of instances, not {kind_of(instances)}")
    for index, instance in enumerate(instances):
        output = instance.get("output") if isinstance(instance, dict) else None
        context = instance.get("input") if isinstance(instance, dict) else None
        if not isinstance(output, str) or not isinstance(context, str | None):
            raise DataError(f"{key}[{index}] must hold an output and may hold an input, both texts")
        yield _prompt_and_response(
            _instruction_prompt(instruction, context),
            output,
            f"{key}[{index}].output",
            template,
            {"instruction": instruction, "input": context or ""},
        )


def _instruction_prompt(instruction: str, context: str | None) -> str:
    return f"{instruction}\n\n{context}\n\n" if context else f"{instruction}\n\n"


def _prompt_and_response(
    prompt: str,
    response: str,
    key: str,
    template: Template | None,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> Text:
    """Return a prompt and its response; `parts` of the prompt are for templates that place them."""
    if template is not None:
        asked = {"role": "user", "content": prompt.strip(), **parts}
        answer = {"role": "assistant", "content": _filled(response, key)}
        text, spans = template.answers([asked, answer])
        return Text(text=text, learned=spans, is_rendered=True)
    joint = "" if not prompt or prompt[-1].isspace() or response[:1].isspace() else "\n"
    start = len(prompt) + len(joint)
    whole = f"{prompt}{joint}{_filled(response, key)}"
    return Text(text=whole, learned=((start, len(whole)),))


def _filled(text: str, key: str) -> str:
    if not text.strip():
        raise DataError(f"key {key!r} is empty: nothing could be learned from it")
    return text


def _chat(self: RowLayout, row: Mapping[str, Any], template: Template | None) -> Iterator[Text]:
    assert template is not None, "chat rows are read with a template"
    key = self.fields["messages"]
    messages = messages_of(row.get(key), key)
    if self.loss == "all":
        yield Text(text=template.render(messages), is_rendered=True)
        return
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    if not any(map(str.strip, answers)):
        lacks = "only empty messages" if answers else "no message"
        raise DataError(f"{key!r} has {lacks} of an assistant: nothing could be learned from it")
    text, spans = template.answers(messages)
    yield Text(text=text, learned=spans, is_rendered=True)


_MAKERS: Final[
    dict[Shape, Callable[[RowLayout, Mapping[str, Any], Template | None], Iterator[Text]]]
] = {"text": _plain, "pair": _pair, "prompt": _prompt, "instruction": _instruction, "chat": _chat}
