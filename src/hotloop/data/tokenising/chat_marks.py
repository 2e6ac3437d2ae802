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
    """How a model family marks the turns of a chat."""

    name: str
    lead: re.Pattern[str]  # what may stand before the first turn
    begin: re.Pattern[str]  # of a turn; group 1 is its role
    role: str  # of an assistant
    ends: tuple[str, ...]  # marks that end a turn; none: the next turn does
    asked: str  # a question, {}, up to where its answer begins

    def answers(self, text: str) -> tuple[Span, ...]:
        """Return the spans of the answers of a text, with their end marks.

        They are empty for a text that does not begin with a turn.
        """
        turns = list(self.begin.finditer(text))
        if not turns or not self.lead.fullmatch(text, 0, turns[0].start()):
            return ()
        limits = [*(turn.start() for turn in turns[1:]), len(text)]
        spans = (
            self._answer(text, turn.end(), limit)
            for turn, limit in zip(turns, limits, strict=True)
            if turn[1] == self.role
        )
        return tuple(span for span in spans if span is not None)

    def _answer(self, text: str, start: int, limit: int) -> Span | None:
        """Return the span of an answer between two characters; None if it is empty."""
        places = ((text.find(mark, start, limit), mark) for mark in self.ends)
        end, mark = min((found for found in places if found[0] >= 0), default=(-1, ""))
        if end < 0:
            end = start + len(text[start:limit].rstrip())
        return (start, end + len(mark)) if text[start:end].strip() else None


def _marks(name: str, lead: str, begin: str, role: str, ends: str, asked: str) -> ChatMarks:
    return ChatMarks(
        name=name,
        lead=re.compile(lead),
        begin=re.compile(begin),
        role=role,
        ends=tuple(ends.split()),
        asked=asked,
    )


_LLAMA: Final = "<|start_header_id|>{}<|end_header_id|>\n\n"
# From the model families' chat templates on the hub (2026-11); Alpaca's and Guanaco's from the rows
# of tatsu-lab/alpaca and timdettmers/openassistant-guanaco.
CHAT_MARKS: Final = {
    marks.name: marks
    for marks in (
        _marks(
            *("ChatML", r"\s*", r"<\|im_start\|>(\w+)\n", "assistant", "<|im_end|>"),
            "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
        ),
        _marks(
            *("Llama 3", r"\s*(<\|begin_of_text\|>)?"),
            *(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n", "assistant"),
            "<|eot_id|> <|eom_id|> <|end_of_text|>",
            f"{_LLAMA.format('user')}{{}}<|eot_id|>{_LLAMA.format('assistant')}",
        ),
        _marks(
            *("Llama 2", r"\s*(<s>)?\s*", r"(\[/?INST\])", "[/INST]", "</s>", "[INST] {} [/INST]")
        ),
        _marks(
            *("Gemma", r"\s*(<bos>)?", r"<start_of_turn>(\w+)\n", "model", "<end_of_turn>"),
            "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
        ),
        _marks(
            *("Alpaca", r"[^#]{0,1000}", r"### (Instruction|Input|Response):\n", "Response", ""),
            "### Instruction:\n{}\n\n### Response:\n",
        ),
        _marks(
            *("Guanaco", r"\s*", r"### (Human|Assistant): ", "Assistant", ""),
            "### Human: {}### Assistant: ",
        ),
    )
}


def marks_of(values: Iterable[object]) -> ChatMarks | None:
    """Return the marks that more than half of the texts among some values have, or None."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    for marks in CHAT_MARKS.values():
        if 2 * sum(bool(marks.answers(text)) for text in texts) > len(texts):
            return marks
    return None
