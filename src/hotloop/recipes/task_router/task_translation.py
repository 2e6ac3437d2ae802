"""Translations from English. Rows: en and another language, or source and target.

The two languages may be inside the key translation, as in the Hub's WMT sets.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.core.errors import DataError
from hotloop.data.readers.parallel import LANGUAGES
from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import bleu_chrf

__all__ = ["TASK"]


# The languages of WMT's and OPUS' common pairs; another one is asked for by its code.
_NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "es": "Spanish",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "kk": "Kazakh",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    texts = record.get("translation", record)
    if not isinstance(texts, Mapping):
        raise DataError("key 'translation' must hold a text for each language")
    if "source" in texts:
        source, target, language = "source", "target", "the other language"
    else:
        source, others = "en", [key for key in texts if key in LANGUAGES and key != "en"]
        if "en" not in texts or len(others) != 1:
            keys = ", ".join(map(str, texts))
            raise DataError(
                f"a row needs en and one other language, or source and target; the keys are {keys}"
            )
        target = others[0]
        language = _NAMES.get(target, target)
    yield Example(text=text_of(texts, source), question=language, answers=(text_of(texts, target),))


TASK = Task(
    name="translation",
    kind="text",
    read=_read,
    prompt="{text}\nIn {question}:\n",
    figures=bleu_chrf,
    score="chrf",
    best=100.0,
    hub="wmt/wmt14::train::fr-en",
    files=("tico19/en-fr.jsonl", "translation.jsonl", "translation", "wmt"),
)
