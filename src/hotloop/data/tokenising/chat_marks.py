"""Finds the answers in texts that hold a chat with its marks, such as <|im_start|>assistant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.data.tokenising.chat_templates import Span

__all__ = ["CHAT_MARKS", "ChatMarks", "marks_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMarks:
    """How a model family marks a turn of an assistant."""

    name: str
    answer: re.Pattern[str]  # group 1 is an answer with its end mark

    def answers(self, text: str) -> tuple[Span, ...]:
        """Return the spans of the answers of a text, with their end marks."""
        return tuple(match.span(1) for match in self.answer.finditer(text) if match[1].strip())


def _marks(name: str, begin: str, end: str) -> ChatMarks:
    return ChatMarks(name=name, answer=re.compile(f"{begin}(.*?{end})", re.DOTALL))


# From the model families' chat templates on the hub (2026-11); Alpaca's and Guanaco's from the rows
# of tatsu-lab/alpaca and timdettmers/openassistant-guanaco.
CHAT_MARKS: Final = {
    marks.name: marks
    for marks in (
        _marks("ChatML", r"<\|im_start\|>assistant\n", r"(?:<\|im_end\|>|\Z)"),
        _marks(
            "Llama 3",
            r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n",
            r"(?:<\|eot_id\|>|<\|end_of_text\|>|\Z)",
        ),
        _marks("Llama 2", r"\[/INST\]", r"(?:</s>|(?=\[INST\])|\Z)"),
        _marks("Gemma", r"<start_of_turn>model\n", r"(?:<end_of_turn>|\Z)"),
        _marks("Alpaca", r"### Response:\n", r"(?:(?=\n+### Instruction:)|\Z)"),
        _marks("Guanaco", r"### Assistant: ", r"(?:(?=### Human: )|\Z)"),
    )
}


def marks_of(values: Iterable[object]) -> ChatMarks | None:
    """Return the marks that all texts among some values have; None without marks or texts."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts:
        return None
    return next((one for one in CHAT_MARKS.values() if all(map(one.answers, texts))), None)
