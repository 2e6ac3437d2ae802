"""Chat templates: one text of messages, and which of its characters an assistant says.

ChatML: https://github.com/openai/openai-python/blob/release-v0.28.0/chatml.md (2026-11). A
tokenizer's own template is Jinja, untrusted like its model folder: it runs in jinja2's sandbox, as
transformers does it (https://huggingface.co/docs/transformers/chat_templating, 2026-11).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.core.errors import ConfigError, DataError
from hotloop.core.manifest import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CHATML", "Span", "Template"]

Span = tuple[int, int]  # characters, the second one excluded
CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A chat template and the special tokens that it may name (bos_token, eos_token, ...)."""

    source: str
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Return a digest of what decides the text of messages."""
        return digest(self.source, json.dumps(dict(self.names), sort_keys=True))

    def render(self, messages: Sequence[Mapping[str, str]], *, asks: bool = False) -> str:
        """Return the text of messages; with `asks`, up to where an answer would begin.

        Raises ConfigError for a template that is not valid, DataError where it refuses messages.
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
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(f"the chat template refuses these messages: {error}") from error
        return str(text)

    def answers(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, tuple[Span, ...]]:
        """Return the text of messages and the spans of what assistants say, with what ends it.

        An answer goes from where the messages before it, asked for one, stop, to where the
        messages up to it stop. Raises DataError for a template that writes the first messages in
        another way when more follow: what it answers cannot be told.
        """
        whole, spans = self.render(messages), []
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self.render(messages[:at], asks=True)
            upto = self.render(messages[: at + 1])
            if not upto.startswith(before) or not whole.startswith(upto.rstrip()):
                raise DataError(
                    f"the chat template writes message {at} in another way when more follow, so "
                    "that what carries loss cannot be told: take the template chatml, or let all "
                    "of a text carry loss"
                )
            end = len(upto.rstrip())  # a line break after the end mark is the next one's to write
            spans.append((len(before), max(end, len(before))))
        return whole, tuple(spans)


def _compiled(source: str, known: dict[str, Any] = {}) -> Any:  # noqa: B006 - it is the memory
    if source not in known:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _json
        environment.globals["raise_exception"] = _refuse
        known[source] = environment.from_string(source)
    return known[source]


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
