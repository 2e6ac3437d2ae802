"""The content of the samples: texts of the shared data folder, whose SOURCES.md names their origin.

A sample has the shape of its set and the texts of another one, wherever the set itself is not at
hand: what is tried on the samples is whether their shape is understood.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from benchmarks.public_samples.columns import Row

__all__ = ["Sources", "missing", "read", "sentences"]

REVIEWS = "sentence_polarity/all.jsonl"
INFERENCES = "snli/dev.jsonl"
PAPERS = "scitldr/train.jsonl"
VALIDATION_PAPERS = "scitldr/dev.jsonl"
TEST_PAPERS = "scitldr/test.jsonl"
TRANSLATIONS = "tico19/en-fr.jsonl"
QUERIES = "text2sql_advising/pairs.jsonl"
SCHEMA = "text2sql_advising/advising-schema.csv"
PROBLEMS = "mbpp/mbpp.jsonl"
TASKS = "self_instruct_seed/seed_tasks.jsonl"
ARTICLES = "xquad/xquad.en.json"
VALIDATION_LINES = "wikitext2/valid.txt"
TEST_LINES = "wikitext2/test.txt"
PLAYS = "tinyshakespeare/input.txt"
GRAPH_QUESTIONS = "text2cypher/text2cypher_gpt4turbo.csv"
FILES = (
    *(REVIEWS, INFERENCES, PAPERS, VALIDATION_PAPERS, TEST_PAPERS, TRANSLATIONS, QUERIES, SCHEMA),
    *(PROBLEMS, TASKS, ARTICLES, VALIDATION_LINES, TEST_LINES, PLAYS, GRAPH_QUESTIONS),
)

MOST_INFERENCES = 1500
SPEECH = re.compile(r"^([A-Z][A-Za-z ]{2,18}):\n(.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Texts, in the order in which all sets take them."""

    reviews: list[Row]  # text, label: 1 is positive; shuffled
    inferences: list[Row]  # premise, hypothesis, label; shuffled
    papers: list[Row]  # title, source: sentences of the abstract, target: summaries
    validation_papers: list[Row]
    test_papers: list[Row]
    translations: list[Row]  # en, fr; shuffled
    queries: list[Row]  # instruction, output: SQL; shuffled
    schema: list[str]  # lines of the tables that the queries are about, without the header
    problems: list[Row]  # MBPP
    tasks: list[Row]  # instruction, instances
    articles: list[Row]  # SQuAD 1.1
    validation_lines: list[str]  # WikiText-2, with the ends of the lines
    test_lines: list[str]
    speeches: list[tuple[str, str]]  # (speaker, text) of Shakespeare's plays
    graph_questions: list[Row]  # question, database; shuffled


def missing(data: Path) -> list[str]:
    """Return the files that the shared data folder lacks."""
    return [name for name in FILES if not (data / name).is_file()]


def read(data: Path, draw: random.Random) -> Sources:
    """Read the shared data folder, and shuffle what has an order of its own."""
    reviews = _records(data / REVIEWS)
    draw.shuffle(reviews)
    inferences = _records(data / INFERENCES)[:MOST_INFERENCES]
    draw.shuffle(inferences)
    translations = _records(data / TRANSLATIONS)
    draw.shuffle(translations)
    queries = _records(data / QUERIES)
    draw.shuffle(queries)
    with (data / GRAPH_QUESTIONS).open(encoding="utf-8", newline="") as file:
        graph_questions: list[Row] = [*csv.DictReader(file)]
    draw.shuffle(graph_questions)
    plays = _text(data / PLAYS)
    return Sources(
        reviews=reviews,
        inferences=[_closed_up(row) for row in inferences],
        papers=_records(data / PAPERS),
        validation_papers=_records(data / VALIDATION_PAPERS),
        test_papers=_records(data / TEST_PAPERS),
        translations=translations,
        queries=queries,
        schema=_text(data / SCHEMA).splitlines()[1:],
        problems=_records(data / PROBLEMS),
        tasks=_records(data / TASKS),
        articles=json.loads(_text(data / ARTICLES))["data"],
        validation_lines=_text(data / VALIDATION_LINES).splitlines(keepends=True),
        test_lines=_text(data / TEST_LINES).splitlines(keepends=True),
        speeches=[
            (found[1].title(), " ".join(found[2].split())) for found in SPEECH.finditer(plays)
        ],
        graph_questions=graph_questions,
    )


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with single blanks between its words."""
    return [" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'])", text)]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _records(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _closed_up(row: Row) -> Row:
    """Return a pair without the blanks that its tokenizer put before the punctuation."""
    texts = {name: row[name].replace("( ", "(") for name in ("premise", "hypothesis")}
    return row | {
        name: re.sub(r"\s+([.,;:!?')])", r"\1", text).strip() for name, text in texts.items()
    }
