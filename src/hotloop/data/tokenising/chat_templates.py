"""Chat templates: make one text of messages, and find the characters that an assistant says.

ChatML: https://github.com/openai/openai-python/blob/release-v0.28.0/chatml.md (2026-11). A
tokenizer's own template is Jinja, and as untrusted as its model folder: it runs in jinja2's
sandbox, as in transformers (https://huggingface.co/docs/transformers/chat_templating, 2026-11).
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["ALPACA", "CHATML", "Span", "Template", "kind_of", "messages_of"]

_TURNS: Final = 5_000_000  # of all loops of a text, some seconds; a conversation takes thousands
_LONGEST: Final = 100_000_000  # characters of a repeated string
_ROLE_WORDS: Final = {
    **dict.fromkeys(("human", "prompter"), "user"),
    **dict.fromkeys(("gpt", "bot", "model"), "assistant"),
}
_COUNTED: Final = "_hotloop_counted"

Span = tuple[int, int]  # first character, end (exclusive)
CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# https://github.com/tatsu-lab/stanford_alpaca, "Data Release" (2026-11). Messages have the keys
# instruction and input where their row has them.
ALPACA: Final = (
    "{% for message in messages %}{% if message.role == 'system' %}"
    "{{ raise_exception('a prompt of Alpaca has no system message') }}"
    "{% elif message.role == 'user' %}Below is an instruction that describes a task"
    "{% if message.input %}, paired with an input that provides further context{% endif %}. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{{ message.instruction or message.content }}\n\n"
    "{% if message.input %}### Input:\n{{ message.input }}\n\n{% endif %}### Response:\n"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A chat template and the special tokens that it may use (bos_token, eos_token, ...)."""

    source: str
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Return a digest of everything that decides the text of messages."""
        return digest(self.source, json.dumps(dict(self.names), sort_keys=True))

    def render(self, messages: Sequence[Mapping[str, str]], *, asks: bool = False) -> str:
        """Return the text of messages; with `asks`, up to where an answer would begin.

        Raises ConfigError for a template that is not valid, DataError if it refuses the messages.
        """
        import jinja2

        try:
            text = _compiled(self.source).render(
                messages=messages, add_generation_prompt=asks, **self.names
            )
        except jinja2.TemplateSyntaxError as error:
            raise ConfigError(
                f"the chat template is not valid Jinja, line {error.lineno}: {error.message}; "
                "the template chatml is another"
            ) from error
        except (MemoryError, RecursionError, _EndlessError) as error:
            why = str(error) or "it takes more memory than there is"
            raise ConfigError(f"the chat template cannot be used: {why}; take chatml") from error
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(f"the chat template refuses these messages: {error}") from error
        return str(text)

    def answers(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, tuple[Span, ...]]:
        """Return the text of messages, and the spans of assistants' answers with their end marks.

        An answer reaches from the end of the messages before it, rendered with a generation prompt,
        to the end of the messages up to it. Raises DataError for a template that writes earlier
        messages differently when more follow, because its answers cannot be located.
        """
        whole, spans = self.render(messages), []
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self.render(messages[:index], asks=True)
            upto = self.render(messages[: index + 1])
            if not upto.startswith(before) or not whole.startswith(upto.rstrip()):
                raise DataError(
                    f"the chat template writes message {index} in another way when more follow, so "
                    "that what carries loss cannot be told: take the template chatml, or let all "
                    "of a text carry loss"
                )
            end = len(upto.rstrip())  # a line break after the end mark belongs to the next message
            spans.append((len(before), max(end, len(before))))
        return whole, tuple(spans)


class _EndlessError(Exception):
    """A template makes more loop turns, or a longer text, than any conversation needs."""


def _compiled(source: str, known: dict[str, Any] = {}) -> _Bounded:  # noqa: B006 - it is the memory
    if source not in known:
        known[source] = _Bounded(source)
    template: _Bounded = known[source]
    return template


class _Bounded:
    """A compiled template whose loops and string products are bounded."""

    def __init__(self, source: str) -> None:
        """Compile the template; raise jinja2.TemplateSyntaxError if it is not valid."""
        from jinja2 import Template, nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Environment(ImmutableSandboxedEnvironment):
            intercepted_binops = frozenset({"*", "**"})

            def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
                if _length(operator, left, right) > _LONGEST:
                    raise _EndlessError(f"it makes a value of more than {_LONGEST:,} characters")
                return super().call_binop(context, operator, left, right)

        environment = Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _json
        environment.globals["raise_exception"] = _refuse
        environment.globals[_COUNTED] = self._counted
        tree = environment.parse(source)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Call(
                nodes.Name(_COUNTED, "load", lineno=loop.lineno),
                [loop.iter], [], None, None, lineno=loop.lineno,
            )  # fmt: skip
        code = environment.compile(tree)
        self._template = Template.from_code(environment, code, environment.make_globals(None))
        self._local = threading.local()  # each thread renders for itself

    def render(self, **variables: Any) -> str:
        """Return the text; raises the template's errors, and _EndlessError."""
        self._local.left = _TURNS
        return self._template.render(**variables)

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self._local.left -= 1
            if self._local.left < 0:
                raise _EndlessError(f"its loops make more than {_TURNS:,} turns")
            yield value


def _length(operator: str, left: Any, right: Any) -> float:
    """Return the length of a sequence times a number, or the digits of a power; else 0."""
    if operator == "**":
        is_whole = isinstance(left, int) and isinstance(right, int)
        return left.bit_length() * right / 3 if is_whole else 0  # decimal digits
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | bytes | list | tuple) and isinstance(times, int):
            return len(sequence) * times
    return 0


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def messages_of(value: object, key: str) -> list[dict[str, str]]:
    """Return messages as role and content, from any of the usual spellings.

    These are objects with role and content, or from and value; texts of a user and an assistant in
    turn; and a tree of replies, of which the thread with the best ranks is taken.
    """
    if isinstance(value, dict) and "replies" in value:
        value = _thread(value)
    if not isinstance(value, list) or not value:
        what = "an empty list" if value == [] else kind_of(value)
        raise DataError(f"key {key!r} must hold a list of messages, not {what}")
    if all(isinstance(message, str) for message in value):
        turns = ("user", "assistant")
        return [{"role": turns[n % 2], "content": text} for n, text in enumerate(value)]
    messages = []
    for index, message in enumerate(value):
        role = _first_text(message, "role", "from")
        content = _first_text(message, "content", "value", "text")
        if role is None or content is None:
            raise DataError(f"{key}[{index}] must hold a role and a content, both texts")
        messages.append({"role": _ROLE_WORDS.get(role, role), "content": content})
    return messages


def _first_text(message: object, *keys: str) -> str | None:
    values = (message.get(key) for key in keys) if isinstance(message, dict) else ()
    return next((value for value in values if isinstance(value, str)), None)


def _thread(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a message and the best-ranked reply of each message; replies without a rank last."""
    thread = [message]
    while replies := thread[-1].get("replies"):
        if not isinstance(replies, list) or not all(isinstance(one, dict) for one in replies):
            raise DataError(f"replies must hold a list of messages, not {kind_of(replies)}")
        thread.append(min(replies, key=_rank))
    if thread[-1].get("role") == "prompter":  # a question that nobody answered
        thread.pop()
    return thread


def _rank(reply: Mapping[str, Any]) -> float:
    rank = reply.get("rank")
    return rank if isinstance(rank, int) else math.inf


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words."""
    if value is None or isinstance(value, bool):
        return "nothing (null)" if value is None else "true or false"
    words = {str: "text", int: "a whole number", float: "a fraction", list: "a list"}
    return words.get(type(value), "an object")
