"""Sets of plain text: WikiText-2, 20 Newsgroups, BBC News, and folders of text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import value
from benchmarks.public_samples.writing import HUB, LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["bbc_news", "class_folders", "newsgroups", "wikitext"]

NEWS_CLASSES = {  # class -> the group that its texts are taken from
    "business": "talk.politics.misc",
    "entertainment": "rec.motorcycles",
    "politics": "sci.med",
    "sport": "rec.autos",
    "tech": "sci.space",
}


def wikitext(samples: Samples, sources: Sources) -> None:
    """Write WikiText-2 in two forms.

    The shapes are those of the hub's Salesforce/wikitext and of wikitext-2-raw-v1.zip.
    """
    splits = {
        "test": sources.test_lines[:300],
        "train": sources.validation_lines[:700],
        "validation": sources.validation_lines[700:1000],
    }
    rows = {
        split: [{"text": line if line.strip() else ""} for line in lines]
        for split, lines in splits.items()
    }
    config = "wikitext-2-raw-v1"
    samples.write_hub("wikitext-hub-parquet", rows, {"text": value()}, folder=config, config=config)
    samples.describe(
        "wikitext-hub-parquet",
        name="WikiText-2",
        form="hub parquet (Salesforce/wikitext, config wikitext-2-raw-v1)",
        kind="text",
        published_by=f"{HUB}Salesforce/wikitext; {LIBRARY} datasets/wikitext/wikitext.py",
        notes="one row a line: blank lines are '', others keep the leading blank and end in "
        "' \\n'; content has <unk>, as in wikitext-2-v1",
    )
    for split, file in (("train", "train"), ("validation", "valid"), ("test", "test")):
        samples.write(f"wikitext-raw/wikitext-2-raw/wiki.{file}.raw", "".join(splits[split]))
    samples.describe(
        "wikitext-raw",
        name="WikiText-2",
        form="wiki.{train,valid,test}.raw",
        kind="text",
        published_by=f"wikitext-2-raw-v1.zip; {LIBRARY} datasets/wikitext/wikitext.py",
        notes="suffix .raw, the dev file is wiki.valid.raw",
        within="wikitext-2-raw",
    )


def _groups(sources: Sources) -> dict[str, list[str]]:
    """Return six groups of texts, each from one source."""
    translations = sources.translations
    neighbours = zip(translations[::2], translations[1::2], strict=False)  # an odd one is left out
    return {
        "comp.graphics": [
            f"{problem['text']}\n\n{problem['code']}" for problem in sources.problems
        ],
        "sci.med": [f"{one['en']}\n{other['en']}" for one, other in neighbours],
        "sci.space": [" ".join(paper["source"][:3]) for paper in sources.papers[300:]],
        "rec.autos": [f"{row['premise']}\n{row['hypothesis']}" for row in sources.inferences],
        "rec.motorcycles": [row["text"] for row in sources.reviews[6000:]],
        "talk.politics.misc": [f"{who}: {text}" for who, text in sources.speeches[3000:]],
    }


def newsgroups(samples: Samples, sources: Sources) -> None:
    """Write 20 Newsgroups as the archive 20news-bydate of qwone.com/~jason/20Newsgroups."""
    for group, texts in _groups(sources).items():
        for number, text in enumerate(texts[:75]):
            split = "train" if number < 45 else "test"
            file = f"20news-bydate-{split}/{group}/{50000 + 37 * number + len(group)}"
            lines = text.count("\n") + 1
            content = (
                f"From: user{number}@example.edu (A. Reader)\nSubject: Re: {group} {number}\n"
                f"Organization: Example\nLines: {lines}\n\n{text}\n"
            )
            is_latin = all(ord(character) < 256 for character in text)
            encoding = "latin-1" if is_latin else "utf-8"
            samples.write(f"newsgroups-folders/{file}", content, encoding=encoding)
    samples.describe(
        "newsgroups-folders",
        name="20 Newsgroups (bydate)",
        form="folders of classes, files without suffix",
        kind="classification",
        published_by="http://qwone.com/~jason/20Newsgroups/ ; "
        f"{LIBRARY} datasets/newsgroup/newsgroup.py",
        notes="20news-bydate-train/<group>/<number>; mail header, blank line, body; not all files "
        "are UTF-8 in the published set; 6 of 20 groups here",
    )


def _news(sources: Sources) -> Mapping[str, Sequence[str]]:
    groups = _groups(sources)
    return {name: groups[group] for name, group in NEWS_CLASSES.items()}


def bbc_news(samples: Samples, sources: Sources) -> None:
    """Write BBC News as the archive bbc-fulltext.zip of mlg.ucd.ie/datasets/bbc.html."""
    for name, texts in _news(sources).items():
        for number, text in enumerate(texts[80:150], 1):
            content = f"{text[:50].strip()}\n\n{text}\n"
            samples.write(f"textfolders-bbc/bbc/{name}/{number:03d}.txt", content)
    samples.write(
        "textfolders-bbc/bbc/README.TXT",
        "Consists of documents from the BBC news website in five topical areas.\n",
    )
    samples.describe(
        "textfolders-bbc",
        name="BBC News",
        form="folders of classes with .txt files, no split",
        kind="classification",
        published_by="http://mlg.ucd.ie/datasets/bbc.html (bbc-fulltext.zip: bbc/business/001.txt)",
        notes="README.TXT beside the class folders; title, blank line, body; no split published",
        within="bbc",
    )


def class_folders(samples: Samples, sources: Sources) -> None:
    """Write text files in a folder for each class, as Keras's text_dataset_from_directory reads."""
    for name, texts in _news(sources).items():
        for number, text in enumerate(texts[150:220]):
            split = "train" if number < 48 else "test"
            samples.write(f"textfolders-txt/{split}/{name}/{number:05d}.txt", text)
    samples.describe(
        "textfolders-txt",
        name="text files by folder",
        form="train/<class>/*.txt, test/<class>/*.txt",
        kind="classification",
        published_by="keras text_dataset_from_directory / aclImdb style",
        verified=False,
        notes="generic layout, no one publisher",
    )
