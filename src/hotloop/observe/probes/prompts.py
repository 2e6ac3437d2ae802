"""Finds the field of a batch that says how long each prompt is, where labels hold the prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotloop.observe.probes.padding import is_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["labelled_prompts"]

# A field with the lengths of prompts, by its name; `lengths` alone may be of whole rows.
_LENGTH = re.compile(
    r"(prompt|instruct|source|src|question|query|context).*(len|size|end)|n_prompt"
)


def labelled_prompts(
    tensors: Mapping[str, Any], main: str | None, label: str | None
) -> tuple[str, float] | None:
    """Return the name of the prompts' lengths and the share of the labels that are prompts.

    None: the labels do not equal the inputs over each prompt.
    """
    inputs, labels = tensors.get(main or ""), tensors.get(label or "")
    if inputs is None or labels is None or main == label or inputs.shape != labels.shape:
        return None
    if not is_tokens(inputs) or not is_tokens(labels):
        return None
    rows, width = inputs.shape
    for name, field in tensors.items():
        lengths = field.detach().reshape(-1)
        if not _LENGTH.search(name.lower()) or field.is_floating_point() or len(lengths) != rows:
            continue
        if all(
            1 < n < width and bool((inputs[row, :n] == labels[row, :n]).all())
            for row, n in enumerate(lengths.tolist())
        ):
            return name, float(lengths.sum()) / (rows * width)
    return None
