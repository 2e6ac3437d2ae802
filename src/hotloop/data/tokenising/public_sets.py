"""Public data sets whose rows need more than the usual names of keys: which key is what.

Each source is the set's page on the hub or its publisher's own; the keys are those that public code
reads (2026-11). To add a set, add its row here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from hotloop.core.errors import DataError
from hotloop.data.tokenising.chat_templates import kind_of

__all__ = ["PUBLIC_SETS", "PublicSet", "public_set", "rows_within", "value_at"]

_HUB: Final = "https://huggingface.co/datasets/"
_SEARCHED: Final = 50  # rows of a record, as the first ones may lack an answer
_SQUAD_PAGE: Final = "https://rajpurkar.github.io/SQuAD-explorer/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSet:
    """A data set that is recognised by its keys."""

    name: str
    source: str
    shape: str = "prompt"
    fields: Mapping[str, str]  # part of the shape, or label -> key
    beside: tuple[str, ...] = ()  # further keys that every row has
    within: tuple[str, ...] = ()  # the lists that hold the rows of a record, from the outside in
    unlabelled: tuple[str | int, ...] = ()  # labels that stand for none
    unanswered: str | None = None  # what is learned of a row whose answers are an empty list
    refused: str | None = None  # why such rows are not trained on, with the remedy

    def of(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has all keys."""
        if not all(value_at(row, key) is not None for key in (*self.fields.values(), *self.beside)):
            return False
        is_chat = self.shape == "chat"
        return not is_chat or isinstance(row[self.fields["messages"]], list | dict)


def _set(name: str, page: str, prompt: str, response: str, *beside: str) -> PublicSet:
    fields = {"prompt": prompt, "response": response}
    return PublicSet(name=name, source=f"{_HUB}{page}", fields=fields, beside=beside)


def _pair(
    name: str, page: str, first: str, second: str, label: str, *unlabelled: str | int
) -> PublicSet:
    fields = {"text_a": first, "text_b": second, "label": label}
    source = f"{_HUB}{page}"
    return PublicSet(name=name, source=source, shape="pair", fields=fields, unlabelled=unlabelled)


_SQUAD: Final = PublicSet(
    name="SQuAD",
    source=f"{_HUB}rajpurkar/squad_v2",
    shape="instruction",
    fields={"instruction": "question", "input": "context", "output": "answers.text"},
    # The word of its authors for a question without an answer: https://arxiv.org/abs/1806.03822
    unanswered="unanswerable",
)
PUBLIC_SETS: Final = (
    _set("XSum", "EdinburghNLP/xsum", "document", "summary"),
    _set("CNN/DailyMail", "abisee/cnn_dailymail", "article", "highlights"),
    _set("MBPP", "google-research-datasets/mbpp", "text", "code", "test_list"),
    _set("MBPP, sanitized", "google-research-datasets/mbpp", "prompt", "code", "test_list"),
    _set("HumanEval", "openai/openai_humaneval", "prompt", "canonical_solution", "entry_point"),
    _set("APPS", "codeparrot/apps", "question", "solutions.0", "difficulty"),
    _set("Spider", "xlangai/spider", "question", "query", "db_id"),
    _set("SAMSum", "knkarthick/samsum", "dialogue", "summary"),
    _SQUAD,
    replace(_SQUAD, name="SQuAD, articles", source=_SQUAD_PAGE, within=("paragraphs", "qas")),
    _pair("SNLI and MNLI", "stanfordnlp/snli", "sentence1", "sentence2", "gold_label", "-"),
    _pair("QNLI", "nyu-mll/glue", "question", "sentence", "label"),
    _pair("QQP", "nyu-mll/glue", "question1", "question2", "label"),
    _pair("QQP, as GLUE's file", "nyu-mll/glue", "question1", "question2", "is_duplicate"),
    _pair("MRPC, as GLUE's file", "nyu-mll/glue", "#1 String", "#2 String", "Quality"),
    PublicSet(
        name="CLINC150",
        source=f"{_HUB}clinc/clinc_oos",
        shape="pair",
        fields={"text_a": "text", "label": "intent"},
    ),
    PublicSet(
        name="UltraChat",
        source=f"{_HUB}openbmb/UltraChat",
        shape="chat",
        fields={"messages": "data"},
        beside=("id",),
    ),
    PublicSet(
        name="OASST, trees",
        source=f"{_HUB}OpenAssistant/oasst1",
        shape="chat",
        fields={"messages": "prompt"},
        beside=("message_tree_id",),
    ),
    PublicSet(
        name="OASST, messages",
        source=f"{_HUB}OpenAssistant/oasst1",
        shape="text",
        fields={"text": "text"},
        beside=("message_id", "role", "message_tree_id"),
        refused="each row is one message of a conversation, and its answer is another row; to "
        'fetch the file of whole conversations and print its path, run python -c "from '
        "huggingface_hub import hf_hub_download as get; print(get('OpenAssistant/oasst1', "
        "'2023-04-12_oasst_ready.trees.jsonl.gz', repo_type='dataset'))\"",
    ),
)


def public_set(row: Mapping[str, Any], *shapes: str) -> PublicSet | None:
    """Return the set that a row is of, if its keys tell it; `shapes` are those that may be."""
    for one in PUBLIC_SETS:
        is_possible = not shapes or one.shape in shapes
        if is_possible and any(map(one.of, _some_within(row, one.within))):
            return one
    return None


def rows_within(row: Mapping[str, Any], within: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a record: those of nested lists, each with the keys above it.

    `within` are the keys of the lists, from the outside in. Raises DataError for a list that is
    missing or holds something else.
    """
    if not within:
        yield row
        return
    key, *inner = within
    items = row.get(key)
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise DataError(f"key {key!r} must hold a list of objects, not {kind_of(items)}")
    above = {name: value for name, value in row.items() if name != key}
    for item in items:
        yield from rows_within({**above, **item}, tuple(inner))


def value_at(row: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of a path such as translation.en; None if there is none.

    A number in a path is an index of a list, which may be JSON inside a text, as APPS has it. Of a
    list without one, it is the first item.
    """
    if key in row:
        return row[key]
    value: Any = row
    for part in key.split("."):
        value = _items(value) if part.isdecimal() else _first(value)
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return _first(value)


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


def _items(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value


def _some_within(row: Mapping[str, Any], within: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return the first rows of a record; none if it has no such lists."""
    if not within:
        return [row]
    if within[0] not in row:
        return []
    try:
        return list(islice(rows_within(row, within), _SEARCHED))
    except DataError:
        return []
