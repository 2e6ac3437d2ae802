"""Public data sets whose keys have other names than is usual: which key is what.

Each source is the set's page on the hub; the keys are those that public code reads (2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["PUBLIC_SETS", "PublicSet", "public_set", "value_at"]

_HUB: Final = "https://huggingface.co/datasets/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSet:
    """A data set that is recognised by its keys."""

    name: str
    source: str
    fields: Mapping[str, str]  # part of the shape -> key
    beside: tuple[str, ...] = ()  # further keys that every row has

    @property
    def shape(self) -> str:
        """Return the shape of the rows."""
        return "instruction" if "instruction" in self.fields else "prompt"

    def of(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has all keys."""
        return all(value_at(row, key) is not None for key in (*self.fields.values(), *self.beside))


def _set(name: str, page: str, prompt: str, response: str, *beside: str) -> PublicSet:
    fields = {"prompt": prompt, "response": response}
    return PublicSet(name=name, source=f"{_HUB}{page}", fields=fields, beside=beside)


PUBLIC_SETS: Final = (
    _set("XSum", "EdinburghNLP/xsum", "document", "summary"),
    _set("CNN/DailyMail", "abisee/cnn_dailymail", "article", "highlights"),
    _set("MBPP", "google-research-datasets/mbpp", "text", "code", "test_list"),
    _set("MBPP, sanitized", "google-research-datasets/mbpp", "prompt", "code", "test_list"),
    _set("HumanEval", "openai/openai_humaneval", "prompt", "canonical_solution", "entry_point"),
    _set("Spider", "xlangai/spider", "question", "query", "db_id"),
    _set("SAMSum", "knkarthick/samsum", "dialogue", "summary"),
    PublicSet(
        name="SQuAD",
        source=f"{_HUB}rajpurkar/squad",
        fields={"instruction": "question", "input": "context", "output": "answers.text"},
    ),
)


def public_set(row: Mapping[str, Any]) -> PublicSet | None:
    """Return the set that a row is of, if its keys tell it."""
    return next((one for one in PUBLIC_SETS if one.of(row)), None)


def value_at(row: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of a path such as translation.en; None if there is none.

    Of a list at the end of a path, it is the first item.
    """
    if key in row:
        return row[key]
    value: Any = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return (value[0] if value else None) if isinstance(value, list) else value
