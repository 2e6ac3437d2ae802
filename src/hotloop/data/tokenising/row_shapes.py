"""Make texts of rows: which field is what, what joins them, and which characters carry loss.

Shapes: text (one field), prompt (a prompt and its response), instruction (an instruction with one
input and output, or with a list of instances), chat (messages), pair (two texts for an encoder).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard, get_args

from hotloop.core.errors import ConfigError, DataError, did_you_mean
from hotloop.data.readers.advised_options import fields as named
from hotloop.data.tokenising.chat_marks import CHAT_MARKS, marks_of
from hotloop.data.tokenising.chat_templates import kind_of, messages_of
from hotloop.data.tokenising.public_sets import public_set, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.tokenising.chat_templates import Span, Template

__all__ = ["LOSSES", "ROLES", "SHAPES", "Loss", "RowLayout", "Shape", "Text", "detect", "layout"]

Shape = Literal["text", "prompt", "instruction", "chat", "pair"]
Loss = Literal["all", "completion", "assistant"]  # the part of a text that carries loss

SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
LOSSES: Final[tuple[Loss, ...]] = get_args(Loss)
# The keys of each part of a shape; the first key that a row has is used.
ROLES: Final[dict[Shape, dict[str, tuple[str, ...]]]] = {
    "chat": {"messages": ("messages", "conversations", "conversation", "chat")},
    "instruction": {
        "instruction": ("instruction",),
        "instances": ("instances",),
        "input": ("input", "context"),
        "output": ("output", "response", "answer"),
    },
    "prompt": {
        "prompt": ("prompt", "question", "input"),
        "response": ("response", "completion", "answer", "output", "target"),
    },
    "pair": {
        "text_a": ("text_a", "sentence1", "premise", "s1", "text", "sentence", "content"),
        "text_b": ("text_b", "sentence2", "hypothesis", "s2"),
    },
    "text": {"text": ("text", "content")},
}
_OPTIONAL: Final = {"instances", "input", "text_b", "output"}
_BESIDE = {"label": ("label", "labels"), "task": ("task", "task_name", "expert"), "report": ()}
_USUAL: Final[dict[Shape, Loss]] = {
    "text": "all",
    "pair": "all",
    "prompt": "completion",
    "instruction": "completion",
    "chat": "assistant",
}


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

    def texts(self, row: Mapping[str, Any], template: Template | None = None) -> Iterator[Text]:
        """Yield the texts of a row. Raises DataError, with the key, for a row that cannot be used.

        Chat rows need the template that renders messages. With one, a prompt or instruction is the
        message of a user, and its answer that of an assistant.
        """
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
        value = row[key] if key in row else _present(row, key)
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

    def _label(self, row: Mapping[str, Any]) -> str | int | None:
        key = self.fields.get("label")
        if key is None:
            return None
        value = row[key] if key in row else _present(row, key)
        if not _is_label(value):
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


def detect(row: Mapping[str, Any]) -> Shape | None:
    """Return the shape that the keys of a row usually stand for, or None."""
    for shape, parts in ROLES.items():
        if shape == "prompt" and (of_set := public_set(row)) is not None:
            return of_set.shape  # type: ignore[return-value]
        present = {part for part, names in parts.items() if any(name in row for name in names)}
        needed = {part for part in parts if part not in _OPTIONAL}
        if shape == "instruction":
            needed.add("instances" if "instances" in present else "output")
        if needed <= present and (shape != "pair" or "text_b" in present):
            return shape
    return None


def layout(
    sample: Sequence[Mapping[str, Any]],
    *,
    shape: str | None = None,
    fields: Mapping[str, str] | None = None,
    loss: str | None = None,
    by: Said = None,
) -> RowLayout:
    """Find out how to read rows, from the first ones and the requested settings.

    The loss "answers" is that of the answers where the rows have any. `by` maps options to the
    user's words. Raises ConfigError for an unknown shape, part or loss, DataError if the rows lack
    what is needed.
    """
    named_keys = dict(fields or {})
    if shape is not None and shape not in SHAPES:
        near = did_you_mean(shape, SHAPES)
        raise ConfigError(f"shape {shape!r} is unknown{near}: {', '.join(SHAPES)}")
    if loss is not None and loss not in (*LOSSES, "answers"):
        raise ConfigError(f"loss {loss!r} is unknown: {', '.join(LOSSES)}")
    row = next(filter(detect, sample), sample[0] if sample else {})
    row_shape = shape or _shape_of_keys(named_keys) or detect(row)
    if row_shape is None:
        ways = [named(parts, by) for parts in (["text"], ["prompt", "response"], ["messages"])]
        known_ways = " or ".join(way for way in ways if way is not None)
        raise DataError(
            f"the rows have {_keys(row)}, none of which is usually trained on"
            + (f"; name what is what: {known_ways}" if known_ways else "")
        )
    keys = _keys_by_part(row_shape, row, sample, named_keys, by)
    marks = marks_of(value_at(one, keys["text"]) for one in sample) if row_shape == "text" else None
    chosen = _loss_of(row_shape, loss, has_answers=marks is not None)
    given_labels = (value_at(one, keys.get("label", "")) for one in sample)
    is_number = isinstance(next(filter(_is_label, given_labels), None), int)
    labels: Literal["int64", "string"] = "int64" if is_number else "string"
    return RowLayout(
        shape=row_shape,  # type: ignore[arg-type]
        fields=keys,
        loss=chosen,
        labels=labels,
        marks=None if marks is None else marks.name,
    )


def _keys_by_part(
    shape: str,
    row: Mapping[str, Any],
    sample: Sequence[Mapping[str, Any]],
    named_keys: Mapping[str, str],
    by: Said,
) -> dict[str, str]:
    """Return the key of each part that rows of a shape have; arguments as for `layout`."""
    parts = ROLES[shape]  # type: ignore[index]
    for part in named_keys:
        if part not in parts and part not in _BESIDE:
            near = did_you_mean(part, [*parts, *_BESIDE])
            raise ConfigError(f"a row of shape {shape} has no {part!r}{near}: {', '.join(parts)}")
    every = {key: value for sample_row in sample for key, value in sample_row.items()}
    known = {**parts, **_BESIDE}  # the first row may lack an optional part, such as an input
    of_set = None if named_keys else public_set(row)
    is_usual = of_set is not None and of_set.fields.keys() <= _keys_of(row, parts).keys()
    own = {} if of_set is None or is_usual or of_set.shape != shape else of_set.fields
    keys = {**_keys_of(every, known), **_keys_of(row, known), **own, **named_keys}
    keys = {part: key for part, key in keys.items() if key}  # an empty key means no such part
    lacking = [part for part in parts if part not in keys and part not in _OPTIONAL]
    if lacking:
        way = named(lacking[:1], by)
        raise DataError(
            f"a row of shape {shape} needs {', '.join(lacking)}, and the first rows have "
            f"{_keys(every)}" + (f"; name the key: {way}" if way is not None else "")
        )
    return keys


def _loss_of(shape: str, loss: str | None, *, has_answers: bool) -> Loss:
    """Return what carries loss in rows of a shape; `has_answers`: texts with marks of chats."""
    if loss == "answers":
        loss = "completion" if has_answers else None
    chosen: Loss = loss or _USUAL[shape]  # type: ignore[assignment,index]
    if chosen == "assistant" and shape != "chat":
        raise ConfigError(f"loss assistant is for chat rows, these are of shape {shape}")
    if chosen == "completion" and shape in ("text", "pair") and not has_answers:
        raise ConfigError(f"loss completion needs a response, rows of shape {shape} have none")
    return chosen


def _shape_of_keys(keys: Mapping[str, str]) -> str | None:
    named = set(keys) - set(_BESIDE)
    fitting = [shape for shape, parts in ROLES.items() if named and named <= set(parts)]
    return fitting[0] if fitting else None


def _keys_of(row: Mapping[str, Any], parts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    present = ((part, [name for name in names if name in row]) for part, names in parts.items())
    return {part: names[0] for part, names in present if names}


def _is_label(value: object) -> TypeGuard[str | int]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _present(row: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key. Raises DataError where the row has none."""
    value = value_at(row, key)
    if value is None and key not in row:
        why = "holds nothing" if key.partition(".")[0] in row else "is missing"
        raise DataError(f"key {key!r} {why}; the row has {_keys(row)}")
    return value


def _keys(row: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, list(row)[:12])) or "no keys"


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
