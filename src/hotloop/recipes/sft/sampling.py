"""Generates answers by a model of chat-sft or expert-sft, with the prompt format of its rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.config.common import AUTO
from hotloop.core.errors import UsageError
from hotloop.data.tokenising.chat_marks import CHAT_MARKS
from hotloop.data.tokenising.row_shapes import RowLayout
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.models.causal_lm import CausalLm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenizers import Tokenizer
    from torch import Tensor, nn

    from hotloop.data.tokenising.chat_templates import Template
    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec
    from hotloop.recipes.building.sampling_options import SamplingOptions
    from hotloop.recipes.sft.config import SftConfig

__all__ = ["sample"]

_LENGTH: Final = 256  # maximum tokens of an answer
_ANSWER: Final = "0"  # any text that no template changes


def sample(
    config: SftConfig,
    model: nn.Module,
    kept: Mapping[str, str],
    options: SamplingOptions,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Return answers to the prompt, without the prompt; `length` counts tokens.

    Raises UsageError without a prompt, and for options of other recipes.
    """
    assert isinstance(model, CausalLm), type(model)
    for name, value in (("--suffix", options.suffix), ("--steps", options.steps)):
        if value is not None:
            raise UsageError(f"{name} is for char-lm runs with objective=diffusion: leave it out")
    if options.prompt is None:
        raise UsageError("what is to be answered? hotloop sample RUN_DIR --prompt TEXT")
    saved: dict[str, Any] = json.loads(kept["texts.json"])
    vocabulary = find_tokenizer(str(config.model.name))
    layout = RowLayout(shape=saved["shape"], fields=saved["fields"], loss=saved["loss"])
    template: Template | None = None
    requested = None if config.data.template == AUTO else config.data.template
    if layout.shape == "chat" or requested is not None:
        template = vocabulary.chat(requested, {})
    marks = CHAT_MARKS.get(saved.get("marks", ""))
    asked = options.prompt if marks is None else marks.asked.replace("{}", options.prompt)
    question = layout.asks(asked, template)
    ends = _end_of_answer(template) if marks is None else "".join(marks.ends[:1])
    tokenizer = vocabulary.tokenizer()
    ids = tokenizer.encode(question.text, add_special_tokens=False).ids
    if not question.is_rendered:
        ids = [*vocabulary.around[0], *ids]
    sampler = _AnswerSampler(model, tokenizer, vocabulary, ends=ends)
    length = _LENGTH if options.length is None else options.length
    generator = torch.Generator().manual_seed(options.seed)
    answers = []
    for number in range(options.samples):
        answers.append(sampler.answer(ids, length, options.temperature or 0.0, generator))
        if progress is not None:
            progress(number + 1, options.samples)
    return answers


def _end_of_answer(template: Template | None) -> str:
    """Return the text that the template adds after an answer; empty without a template."""
    if template is None:
        return ""
    messages = [{"role": "user", "content": _ANSWER}]
    prompt = template.render(messages, asks=True)
    whole = template.render([*messages, {"role": "assistant", "content": _ANSWER}])
    return whole.removeprefix(prompt).removeprefix(_ANSWER).strip()


class _AnswerSampler:
    """Samples answers one token at a time, with a cache of keys and values."""

    def __init__(
        self, model: CausalLm, tokenizer: Tokenizer, vocabulary: TokenizerSpec, *, ends: str
    ) -> None:
        self._model, self._tokenizer, self._ends = model, tokenizer, ends
        self._eos = vocabulary.eos

    @torch.inference_mode()
    def answer(
        self, prompt_ids: list[int], length: int, temperature: float, generator: torch.Generator
    ) -> str:
        """Return the text of one answer; temperature 0 means greedy decoding."""
        device = next(self._model.parameters()).device
        input_ids, cache = torch.tensor([prompt_ids], device=device), None
        answer_ids, text = list[int](), ""
        with self._model.backbone.as_transformers() as model:
            for _ in range(length):
                output = model(input_ids=input_ids, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                token = _next(output.logits[0, -1], temperature, generator)
                if token == self._eos:
                    break
                answer_ids.append(token)
                text = self._tokenizer.decode(answer_ids, skip_special_tokens=False)
                if self._ends and self._ends in text:
                    return text.partition(self._ends)[0].strip()
                input_ids = torch.tensor([[token]], device=device)
        return text.strip()


def _next(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    """Return the next token, chosen from logits [vocabulary]."""
    if not temperature:
        return int(logits.argmax())
    shares = (logits.float().cpu() / temperature).softmax(-1)
    return int(torch.multinomial(shares, 1, generator=generator))
