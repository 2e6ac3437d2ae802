"""Sets of questions about a paragraph: QNLI, SQuAD 1.1 and SQuAD 2.0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import label, sequence, value
from benchmarks.public_samples.sources import sentences
from benchmarks.public_samples.writing import HUB, LIBRARY, portions, tab_separated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["qnli", "squad"]

QNLI_LABELS = ("entailment", "not_entailment")
SQUAD_COLUMNS = {
    "id": value(),
    "title": value(),
    "context": value(),
    "question": value(),
    "answers": sequence({"text": value(), "answer_start": value("int32")}),
}
ANSWERS_OF_DEV = 3  # of each question; here they are the same
UNANSWERABLE = 2  # questions of a paragraph that another paragraph answers


def qnli(samples: Samples, sources: Sources) -> None:
    """Write QNLI in two forms; it asks whether a sentence answers a question.

    The shapes are those of gluebenchmark.com's QNLIv2.zip and of the hub's nyu-mll/glue.
    """
    (train,) = portions(_asked(samples, sources.articles[:24]), 400)
    dev, test = portions(_asked(samples, sources.articles[24:]), 150, 150)
    splits = {"train": train, "dev": dev, "test": test}
    _qnli_tables(samples, splits)
    _qnli_hub(samples, splits)


def _qnli_tables(samples: Samples, splits: Mapping[str, Sequence[Row]]) -> None:
    """Write GLUE's folder of tables, whose labels are words."""
    for split, rows in splits.items():
        header = ["index", "question", "sentence"]
        cells = [[str(number), row["question"], row["sentence"]] for number, row in enumerate(rows)]
        if split != "test":
            header.append("label")
            for each, row in zip(cells, rows, strict=True):
                each.append(QNLI_LABELS[row["label"]])
        samples.write(f"qnli-glue-tsv/QNLI/{split}.tsv", tab_separated(header, cells))
    samples.describe(
        "qnli-glue-tsv",
        name="QNLI",
        form="GLUE TSV folder",
        kind="pairs",
        published_by=f"gluebenchmark.com QNLIv2.zip; {LIBRARY} datasets/glue/glue.py",
        notes="labels are words (entailment / not_entailment); test without label; unquoted TSV",
        within="QNLI",
    )


def _qnli_hub(samples: Samples, splits: Mapping[str, Sequence[Row]]) -> None:
    """Write the configuration qnli of the repository nyu-mll/glue."""
    columns = {
        "question": value(),
        "sentence": value(),
        "label": label(*QNLI_LABELS),
        "idx": value("int32"),
    }
    names = {"train": "train", "dev": "validation", "test": "test"}
    rows = {
        names[split]: [{**row, "idx": number} for number, row in enumerate(part)]
        for split, part in splits.items()
    }
    rows["test"] = [{**row, "label": -1} for row in rows["test"]]
    samples.write_hub("qnli-hub-parquet", rows, columns, folder="qnli", config="qnli")
    samples.describe(
        "qnli-hub-parquet",
        name="QNLI",
        form="hub parquet (nyu-mll/glue, config qnli)",
        kind="pairs",
        published_by=f"{HUB}nyu-mll/glue; {LIBRARY} datasets/glue/dataset_infos.json",
        notes="test label -1; folder by analogy with glue/sst2",
    )


def _asked(samples: Samples, articles: Sequence[Row]) -> list[Row]:
    """Return questions, each with the sentence that holds its answer or with another one."""
    found = []
    for paragraph in (part for article in articles for part in article["paragraphs"]):
        every = sentences(paragraph["context"])
        for question in paragraph["qas"]:
            answer = question["answers"][0]["text"]
            right = [sentence for sentence in every if answer in sentence]
            wrong = [sentence for sentence in every if answer not in sentence]
            if not right or not wrong:
                continue
            is_right = samples.draw.random() < 0.5
            sentence = right[0] if is_right else samples.draw.choice(wrong)
            found.append(
                {
                    "question": question["question"].strip(),
                    "sentence": sentence,
                    "label": 0 if is_right else 1,
                }
            )
    samples.draw.shuffle(found)
    return found


def squad(samples: Samples, sources: Sources) -> None:
    """Write SQuAD 1.1 and SQuAD 2.0, each in two forms.

    The shapes are those of rajpurkar.github.io/SQuAD-explorer, and of the hub's rajpurkar/squad and
    rajpurkar/squad_v2.
    """
    train = _version_1(sources.articles[:14], answers=1)
    dev = _version_1(sources.articles[14:20], answers=ANSWERS_OF_DEV)
    train_2 = _version_2(sources.articles[20:30], answers=1)
    dev_2 = _version_2(sources.articles[30:35], answers=ANSWERS_OF_DEV)
    _squad_files(samples, train, dev)
    _squad2_files(samples, train_2, dev_2)
    _squad_hub(samples, train, dev)
    _squad2_hub(samples, train_2, dev_2)


def _squad_files(samples: Samples, train: Row, dev: Row) -> None:
    """Write the two files of version 1.1, each of one line."""
    samples.write("squad-json/train-v1.1.json", json.dumps(train))
    samples.write("squad-json/dev-v1.1.json", json.dumps(dev))
    samples.describe(
        "squad-json",
        name="SQuAD v1.1",
        form="train-v1.1.json + dev-v1.1.json",
        kind="questions",
        published_by="https://rajpurkar.github.io/SQuAD-explorer/ ; nesting as in "
        "google-deepmind/xquad",
        notes="one line of JSON; dev has several answers a question, often the same",
    )


def _squad2_files(samples: Samples, train: Row, dev: Row) -> None:
    """Write the two files of version 2.0, each of one line."""
    samples.write("squad2-json/train-v2.0.json", json.dumps(train))
    samples.write("squad2-json/dev-v2.0.json", json.dumps(dev))
    samples.describe(
        "squad2-json",
        name="SQuAD v2.0",
        form="train-v2.0.json + dev-v2.0.json",
        kind="questions",
        published_by="https://rajpurkar.github.io/SQuAD-explorer/; a quoted dev-v2.0.json record "
        "(index id 5404713468)",
        notes="is_impossible with answers [] and plausible_answers; version v2.0 stands first",
    )


def _squad_hub(samples: Samples, train: Row, dev: Row) -> None:
    """Write the repository rajpurkar/squad."""
    splits = {"train": _flat(train), "validation": _flat(dev)}
    samples.write_hub(
        "squad-hub-parquet", splits, SQUAD_COLUMNS, folder="plain_text", config="plain_text"
    )
    samples.describe(
        "squad-hub-parquet",
        name="SQuAD v1.1",
        form="hub parquet (rajpurkar/squad)",
        kind="questions",
        published_by=f"{HUB}rajpurkar/squad; {LIBRARY} datasets/squad/dataset_infos.json",
        notes="answers is a struct of two lists, not a list of structs",
    )


def _squad2_hub(samples: Samples, train: Row, dev: Row) -> None:
    """Write the repository rajpurkar/squad_v2."""
    splits = {"train": _flat(train), "validation": _flat(dev)}
    samples.write_hub(
        "squad2-hub-parquet", splits, SQUAD_COLUMNS, folder="squad_v2", config="squad_v2"
    )
    samples.describe(
        "squad2-hub-parquet",
        name="SQuAD v2.0",
        form="hub parquet (rajpurkar/squad_v2)",
        kind="questions",
        published_by=f"{HUB}rajpurkar/squad_v2; {LIBRARY} datasets/squad_v2/dataset_infos.json",
        notes="unanswerable: both lists of answers empty, no is_impossible column; folder "
        "squad_v2/ from memory",
    )


def _version_1(articles: Sequence[Row], *, answers: int) -> Row:
    """Return the articles in the order of keys of version 1.1, with so many answers each."""
    data = []
    for article in articles:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            questions = []
            for question in paragraph["qas"]:
                found = [
                    {"answer_start": answer["answer_start"], "text": answer["text"]}
                    for answer in question["answers"]
                ]
                questions.append(
                    {
                        "answers": found * answers,
                        "question": question["question"],
                        "id": question["id"],
                    }
                )
            paragraphs.append({"context": paragraph["context"], "qas": questions})
        data.append({"title": article["title"], "paragraphs": paragraphs})
    return {"data": data, "version": "1.1"}


def _version_2(articles: Sequence[Row], *, answers: int) -> Row:
    """Return the articles in the order of keys of version 2.0, with questions without answers."""
    data = []
    for article in articles:
        paragraphs = []
        following = [*article["paragraphs"][1:], article["paragraphs"][0]]
        for paragraph, next_one in zip(article["paragraphs"], following, strict=True):
            questions = [_answered(question, answers) for question in paragraph["qas"]]
            questions += [
                _unanswerable(question, paragraph["context"])
                for question in next_one["qas"][:UNANSWERABLE]
            ]
            paragraphs.append({"qas": questions, "context": paragraph["context"]})
        data.append({"title": article["title"], "paragraphs": paragraphs})
    return {"version": "v2.0", "data": data}


def _answered(question: Row, answers: int) -> Row:
    found = [
        {"text": answer["text"], "answer_start": answer["answer_start"]}
        for answer in question["answers"]
    ]
    return {
        "question": question["question"],
        "id": question["id"],
        "answers": found * answers,
        "is_impossible": False,
    }


def _unanswerable(question: Row, context: str) -> Row:
    """Return a question of another paragraph, with a word of this one as a plausible answer."""
    start = context.find(" ", 30) + 1
    word = context[start:].split(" ")[0]
    return {
        "plausible_answers": [{"text": word, "answer_start": start}],
        "question": question["question"],
        "id": f"5a{question['id'][2:-1]}x",
        "answers": [],
        "is_impossible": True,
    }


def _flat(published: Row) -> list[Row]:
    """Return one row for each question, with the hub's columns."""
    return [
        {
            "id": question["id"],
            "title": article["title"],
            "context": paragraph["context"],
            "question": question["question"],
            "answers": {
                "text": [answer["text"] for answer in question["answers"]],
                "answer_start": [answer["answer_start"] for answer in question["answers"]],
            },
        }
        for article in published["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
