"""Sets of instructions with one response: Alpaca and Dolly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.public_samples.writing import HUB, json_lines

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["Question", "alpaca", "dolly", "shuffled_questions", "shuffled_tasks"]

CLOSED = ["closed_qa", "information_extraction"]  # categories of Dolly with a context
OPEN = [
    *("open_qa", "general_qa", "brainstorming", "creative_writing", "classification"),
    "summarization",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An instruction, what it is about (often nothing), and the response."""

    instruction: str
    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a context, and its answer."""

    question: str
    context: str
    answer: str


def shuffled_tasks(sources: Sources, draw: random.Random) -> list[Task]:
    """Return the seed tasks of Self-Instruct and some problems of MBPP."""
    found = [
        Task(instruction=task["instruction"], input=one["input"], output=one["output"])
        for task in sources.tasks
        for one in task["instances"][:2]
    ]
    found += [
        Task(instruction=problem["text"], input="", output=problem["code"].replace("\r\n", "\n"))
        for problem in sources.problems[100:200]
    ]
    draw.shuffle(found)
    return found


def shuffled_questions(sources: Sources, draw: random.Random) -> list[Question]:
    """Return the questions of all articles."""
    found = [
        Question(
            question=question["question"],
            context=paragraph["context"],
            answer=question["answers"][0]["text"],
        )
        for article in sources.articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    draw.shuffle(found)
    return found


def alpaca(samples: Samples, tasks: Sequence[Task]) -> None:
    """Write alpaca_data.json in the shape that github tatsu-lab/stanford_alpaca describes."""
    rows = [
        {"instruction": task.instruction, "input": task.input, "output": task.output}
        for task in tasks[:320]
    ]
    samples.write("alpaca-json/alpaca_data.json", json.dumps(rows, indent=4))
    samples.describe(
        "alpaca-json",
        name="Alpaca",
        form="alpaca_data.json",
        kind="instruction",
        published_by="github tatsu-lab/stanford_alpaca README",
        notes="JSON array; input is '' (not missing) for most; no dev file; indent from memory",
    )


def dolly(samples: Samples, tasks: Sequence[Task], questions: Sequence[Question]) -> None:
    """Write the file of the hub's databricks/databricks-dolly-15k."""
    rows = [
        {
            "instruction": question.question,
            "context": question.context,
            "response": question.answer,
            "category": samples.draw.choice(CLOSED),
        }
        for question in questions[:160]
    ]
    rows += [
        {
            "instruction": task.instruction,
            "context": task.input,
            "response": task.output,
            "category": samples.draw.choice(OPEN),
        }
        for task in tasks[:160]
    ]
    content = json_lines(rows, ensure_ascii=False)
    samples.write("dolly-jsonl/databricks-dolly-15k.jsonl", content)
    samples.describe(
        "dolly-jsonl",
        name="Dolly 15k",
        form="databricks-dolly-15k.jsonl",
        kind="instruction",
        published_by=f"{HUB}databricks/databricks-dolly-15k",
        notes="instruction, context (often ''), response, category; eight categories; one file",
    )
