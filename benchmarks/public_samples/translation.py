"""WMT14 and WMT19: pairs of sentences in two languages.

The content is French and English. Where the published set is German, the French text stands under
the key or in the file of the German one, and the notes say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.public_samples.writing import HUB, LIBRARY, portions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["news_commentary", "wmt14"]

FILES = {"train": "train", "validation": "newstest2013", "test": "newstest2014"}

Pairs = list[tuple[str, str]]  # (French, English)


def _pairs(sources: Sources) -> Pairs:
    return [
        (row["fr"].replace("\t", " "), row["en"].replace("\t", " ")) for row in sources.translations
    ]


def wmt14(samples: Samples, sources: Sources) -> None:
    """Write WMT14 in three forms.

    The shapes are those of the hub's wmt/wmt14 and of nlp.stanford.edu/projects/nmt.
    """
    parts = portions(_pairs(sources), 400, 120, 120)
    splits = dict(zip(FILES, parts, strict=True))
    _hub(samples, "wmt-hub-parquet", splits, language="de", shards=3)
    samples.describe(
        "wmt-hub-parquet",
        name="WMT14",
        form="hub parquet (wmt/wmt14, config de-en)",
        kind="translation",
        published_by=f"{HUB}wmt/wmt14; {LIBRARY} datasets/wmt14/dataset_infos.json",
        notes="one struct column translation; TEXT IS FRENCH under the key de; train in 3 shards",
    )
    _hub(samples, "wmt-fr-hub-parquet", splits, language="fr", shards=30)
    samples.describe(
        "wmt-fr-hub-parquet",
        name="WMT14",
        form="hub parquet (wmt/wmt14, config fr-en)",
        kind="translation",
        published_by=f"{HUB}wmt/wmt14; {LIBRARY} datasets/wmt14/dataset_infos.json",
        verified=False,
        notes="one struct column translation; true language; train in 30 shards (number from "
        "memory)",
    )
    for split, file in FILES.items():
        for number, language in enumerate(("de", "en")):
            lines = [pair[number] + "\n" for pair in splits[split]]
            samples.write(f"wmt-moses/{file}.{language}", "".join(lines))
    samples.describe(
        "wmt-moses",
        name="WMT14",
        form="Moses pair of files",
        kind="translation",
        published_by="https://nlp.stanford.edu/projects/nmt/ (train.de, train.en, "
        "newstest201x.de/.en)",
        verified=False,
        notes="line i of one file belongs to line i of the other; newstest2013 is dev, "
        "newstest2014 test; TEXT IS FRENCH in the .de files",
    )


def _hub(
    samples: Samples, slug: str, splits: Mapping[str, Pairs], *, language: str, shards: int
) -> None:
    """Write a configuration of the repository wmt/wmt14."""
    rows = {
        split: [{"translation": {language: text, "en": english}} for text, english in pairs]
        for split, pairs in splits.items()
    }
    samples.write_hub(
        slug,
        rows,
        {"translation": {"languages": [language, "en"], "_type": "Translation"}},
        folder=f"{language}-en",
        config=f"{language}-en",
        shards={"train": shards},
    )


def news_commentary(samples: Samples, sources: Sources) -> None:
    """Write the News Commentary v14 as data.statmt.org/news-commentary/v14 publishes it."""
    lines = []
    for number, (text, english) in enumerate(_pairs(sources)[700:1100]):
        lines.append(f"{text}\t{english}\n")
        if number % 37 == 36:
            lines.append("\t\n")
    samples.write("wmt-tsv/news-commentary-v14.de-en.tsv", "".join(lines))
    samples.describe(
        "wmt-tsv",
        name="News Commentary v14 (WMT19)",
        form="TSV, two columns, no header",
        kind="translation",
        published_by="http://data.statmt.org/news-commentary/v14/training/"
        "news-commentary-v14.de-en.tsv.gz",
        notes="file name and two columns verified by its users; empty pairs between documents; no "
        "dev file; TEXT IS FRENCH in the first column",
    )
