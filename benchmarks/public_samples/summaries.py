"""Sets of long texts and their summaries: XSum, CNN/DailyMail, SAMSum."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import value
from benchmarks.public_samples.writing import HUB, LIBRARY, json_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["cnn_dailymail", "samsum", "xsum"]

TURNS = 5  # of a dialogue


def _papers(sources: Sources) -> dict[str, list[Row]]:
    return {
        "train": sources.papers[:300],
        "validation": sources.validation_papers[:120],
        "test": sources.test_papers[:120],
    }


def xsum(samples: Samples, sources: Sources) -> None:
    """Write XSum in two forms.

    The columns are those of the hub's EdinburghNLP/xsum; the publisher has no JSON lines.
    """
    splits = {
        split: [
            {
                "document": " ".join(paper["source"]).replace(". ", ".\n"),
                "summary": paper["target"][0],
                "id": str(samples.draw.randrange(10**7, 4 * 10**7)),
            }
            for paper in papers
        ]
        for split, papers in _papers(sources).items()
    }
    columns = {"document": value(), "summary": value(), "id": value()}
    samples.write_hub("xsum-hub-parquet", splits, columns, folder="data")
    samples.describe(
        "xsum-hub-parquet",
        name="XSum",
        form="hub parquet (EdinburghNLP/xsum)",
        kind="summaries",
        published_by=f"{HUB}EdinburghNLP/xsum",
        verified=False,
        notes=f"columns document,summary,id verified ({LIBRARY} datasets/xsum); the parquet path "
        "data/<split>-00000-of-00001.parquet is not (the repository also holds a tar.gz read by a "
        "script)",
    )
    for split, rows in splits.items():
        samples.write(f"xsum-jsonl/{split}.jsonl", json_lines(rows, ensure_ascii=False))
    samples.describe(
        "xsum-jsonl",
        name="XSum",
        form="jsonl, one file a split",
        kind="summaries",
        published_by=f"{HUB}EdinburghNLP/xsum (exported)",
        verified=False,
        notes="the publisher ships no jsonl: this is what to_json / common mirrors write",
    )


def cnn_dailymail(samples: Samples, sources: Sources) -> None:
    """Write CNN/DailyMail in the form of the hub's abisee/cnn_dailymail, in several shards."""
    splits = {}
    for split, papers in _papers(sources).items():
        rows = []
        for paper in papers:
            article = " ".join(paper["source"])
            points = [text.rstrip(". ") for text in (paper["target"][0], paper["title"])]
            rows.append(
                {
                    "article": f"(CNN) -- {article}",
                    "highlights": " .\n".join(points) + " .",
                    "id": hashlib.sha1(article.encode()).hexdigest(),
                }
            )
        splits[split] = rows
    columns = {"article": value(), "highlights": value(), "id": value()}
    samples.write_hub(
        "cnn-dailymail-hub-parquet",
        splits,
        columns,
        folder="3.0.0",
        config="3.0.0",
        shards={"train": 3},
    )
    samples.describe(
        "cnn-dailymail-hub-parquet",
        name="CNN/DailyMail",
        form="hub parquet (abisee/cnn_dailymail, config 3.0.0, train in 3 shards)",
        kind="summaries",
        published_by=f"{HUB}abisee/cnn_dailymail",
        notes="highlights: lines ending in ' .'; train-0000{0,1,2}-of-00003",
    )


def samsum(samples: Samples, sources: Sources) -> None:
    """Write SAMSum as the files of the archive corpus.7z of the hub's Samsung/samsum."""
    for split, count, start in (("train", 240, 0), ("val", 120, 1300), ("test", 120, 2000)):
        speeches = sources.speeches[start : start + TURNS * count]
        content = json.dumps(_dialogues(samples, speeches), indent=2)
        samples.write(f"samsum-json/{split}.json", content)
    samples.describe(
        "samsum-json",
        name="SAMSum",
        form="train.json, val.json, test.json (corpus.7z unpacked)",
        kind="summaries",
        published_by=f"{HUB}Samsung/samsum (samsum.py, data/corpus.7z); arxiv 1911.12237 ancillary "
        "files",
        notes="JSON arrays of {id, summary, dialogue}; turns end in \\r\\n; file is val.json; "
        "indent from memory",
    )


def _dialogues(samples: Samples, speeches: Sequence[tuple[str, str]]) -> list[Row]:
    """Return dialogues of consecutive speeches; a summary says who talks and how it begins."""
    found = []
    for start in range(0, len(speeches), TURNS):
        turns = speeches[start : start + TURNS]
        first, *others = dict.fromkeys(speaker for speaker, _ in turns)
        listeners = " and ".join(others[:2]) or "the others"
        beginning = turns[0][1][:70].rstrip(".,;:!? ")
        found.append(
            {
                "id": str(samples.draw.randrange(13 * 10**6, 14 * 10**6)),
                "summary": f"{first} talks to {listeners}: {beginning}.",
                "dialogue": "\r\n".join(f"{speaker}: {text[:160]}" for speaker, text in turns),
            }
        )
    return found
