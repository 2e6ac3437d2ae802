"""Writes small samples of public data sets, in the shapes in which their publishers ship them.

    python -m benchmarks.public_samples FOLDER [--data SHARED_DATA]

Writes FOLDER/data/<slug>/ for each form of each set, and FOLDER/sets.json, which says what each
one is, who publishes it in this shape, and whether the shape was seen there or is from memory.
The texts come from the shared data folder (../shared/data beside the repository), whatever the
set. Two runs with the same versions of pyarrow and SQLite write the same bytes. The samples of an
earlier run in FOLDER are replaced.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.public_samples import (
    answers,
    caches,
    chats,
    classification,
    conversation_trees,
    imdb,
    instructions,
    pairs,
    problems,
    sources,
    spider,
    summaries,
    texts,
    translation,
)
from benchmarks.public_samples.writing import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parents[3] / "shared" / "data"
SEED = 20261130


def fill(samples: Samples, content: sources.Sources) -> None:
    """Write all sets; their order decides which random numbers each one draws."""
    sst2_splits = classification.sst2(samples, content)
    classification.ag_news(samples, content)
    imdb_splits = imdb.imdb(samples, content)
    pairs.mnli(samples, content)
    pairs.snli(samples, content)
    answers.qnli(samples, content)
    answers.squad(samples, content)
    classification.clinc150(samples, content)
    summaries.xsum(samples, content)
    summaries.cnn_dailymail(samples, content)
    summaries.samsum(samples, content)
    problems.mbpp(samples, content)
    problems.humaneval(samples, content)
    problems.apps(samples, content)
    translation.wmt14(samples, content)
    translation.news_commentary(samples, content)
    spider.spider(samples, content)
    tasks = instructions.shuffled_tasks(content, samples.draw)
    instructions.alpaca(samples, tasks)
    questions = instructions.shuffled_questions(content, samples.draw)
    instructions.dolly(samples, tasks, questions)
    conversation_trees.oasst1(samples, questions)
    chats.sharegpt(samples, questions)
    chats.ultrachat(samples, questions)
    chats.ultrachat_200k(samples, questions)
    chats.openhermes(samples, questions)
    texts.wikitext(samples, content)
    texts.newsgroups(samples, content)
    texts.bbc_news(samples, content)
    texts.class_folders(samples, content)
    caches.saved_to_disk(samples, sst2_splits)
    caches.library_cache(samples, sst2_splits, imdb_splits)
    caches.hub_cache(samples, sst2_splits)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the samples into a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--data", type=Path, default=DATA, metavar="SHARED_DATA")
    options = parser.parse_args(argv)
    if not options.data.is_dir():
        parser.error(
            f"expected the shared data folder at {options.data}, found none; name it with --data"
        )
    if missing := sources.missing(options.data):
        parser.error(
            f"{options.data} lacks {', '.join(missing)}; name the shared data folder with --data"
        )
    written = options.folder / "data"
    if written.exists():
        if not (options.folder / "sets.json").is_file():
            parser.error(
                f"{written} was not written by this program, as no sets.json stands beside it; "
                "name another folder"
            )
        shutil.rmtree(written)
    draw = random.Random(SEED)
    content = sources.read(options.data, draw)
    samples = Samples(folder=options.folder, draw=draw)
    fill(samples, content)
    samples.finish()
    files = sum(not path.is_dir() for path in written.rglob("*"))
    print(f"{len(samples.sets)} sets; {files} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
