"""Public data sets whose keys have other names than is usual: which key is what.

Each source is the set's page on the hub (2026-11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PUBLIC_SETS", "PublicSet", "public_set"]

_HUB: Final = "https://huggingface.co/datasets/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSet:
    """A data set that is recognised by its keys."""

    name: str
    source: str
    prompt: str
    response: str
    beside: tuple[str, ...] = ()  # further keys that every row has

    @property
    def keys(self) -> set[str]:
        """Return the keys by which it is recognised."""
        return {self.prompt, self.response, *self.beside}


def _set(name: str, page: str, prompt: str, response: str, *beside: str) -> PublicSet:
    return PublicSet(
        name=name, source=f"{_HUB}{page}", prompt=prompt, response=response, beside=beside
    )


PUBLIC_SETS: Final = (
    _set("XSum", "EdinburghNLP/xsum", "document", "summary"),
    _set("CNN/DailyMail", "abisee/cnn_dailymail", "article", "highlights"),
    _set("MBPP", "google-research-datasets/mbpp", "text", "code", "test_list"),
    _set("MBPP, sanitized", "google-research-datasets/mbpp", "prompt", "code", "test_list"),
    _set("HumanEval", "openai/openai_humaneval", "prompt", "canonical_solution", "entry_point"),
    _set("Spider", "xlangai/spider", "question", "query", "db_id"),
    _set("SAMSum", "knkarthick/samsum", "dialogue", "summary"),
    _set("BillSum", "FiscalNote/billsum", "text", "summary", "title"),
)


def public_set(row: Mapping[str, Any]) -> PublicSet | None:
    """Return the set that a row is of, if its keys tell it."""
    return next((one for one in PUBLIC_SETS if one.keys <= row.keys()), None)
