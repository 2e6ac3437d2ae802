"""IMDB: the folder tree of reviews with its word counts, and the hub's form."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import label, value
from benchmarks.public_samples.writing import HUB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["IMDB_COLUMNS", "imdb"]

IMDB_COLUMNS = {"text": value(), "label": label("neg", "pos")}
TREE = "imdb-folders/aclImdb"
BREAK = "<br />"
SENTENCES = 4  # of a review
RATINGS = {"pos": [7, 8, 9, 10], "neg": [1, 2, 3, 4]}

Reviews = dict[tuple[str, str], list[str]]  # (split, side) -> texts


def imdb(samples: Samples, sources: Sources) -> dict[str, list[Row]]:
    """Write IMDB in two forms, and return its splits with the hub's columns.

    The shapes are those of ai.stanford.edu/~amaas/data/sentiment and of the hub's stanfordnlp/imdb.
    """
    pools = {
        side: [row["text"].strip() for row in sources.reviews[3000:] if row["label"] == number]
        for side, number in (("pos", 1), ("neg", 0))
    }
    reviews = {
        (split, side): [
            _review([pools[side].pop() for _ in range(SENTENCES)]) for _ in range(count)
        ]
        for split, count in (("train", 150), ("test", 75))
        for side in ("pos", "neg")
    }
    unlabelled = []
    for _ in range(120):
        sides = ("pos" if samples.draw.random() < 0.5 else "neg" for _ in range(SENTENCES))
        unlabelled.append(_review([pools[side].pop() for side in sides]))
    _tree(samples, reviews, unlabelled)
    return _hub(samples, reviews, unlabelled)


def _review(parts: list[str]) -> str:
    """Return a review of two paragraphs."""
    return f"{BREAK}{BREAK}".join(" ".join(parts[start : start + 2]) for start in (0, 2))


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.replace(BREAK, " ").lower())


def _vocabulary(texts: Iterable[str]) -> list[str]:
    """Return the words of the texts, the frequent ones first."""
    counts = Counter(word for text in texts for word in _words(text))
    return sorted(counts, key=lambda word: (-counts[word], word))


def _bag(text: str, numbers: Mapping[str, int]) -> str:
    """Return the words of a text as <number>:<count>."""
    counts = Counter(numbers[word] for word in _words(text))
    return " ".join(f"{number}:{count}" for number, count in sorted(counts.items()))


def _addresses(samples: Samples, count: int) -> str:
    numbers = [samples.draw.randrange(10**6) for _ in range(count)]
    return "".join(f"http://www.imdb.com/title/tt{number:07d}/usercomments\n" for number in numbers)


def _tree(samples: Samples, reviews: Reviews, unlabelled: list[str]) -> None:
    """Write the folders of aclImdb_v1.tar.gz, whose files are called <number>_<rating>.txt."""
    every = [text for texts in reviews.values() for text in texts] + unlabelled
    vocabulary = _vocabulary(every)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    for split in ("train", "test"):
        bags = []
        for side in ("pos", "neg"):
            for number, text in enumerate(reviews[split, side]):
                rating = samples.draw.choice(RATINGS[side])
                samples.write(f"{TREE}/{split}/{side}/{number}_{rating}.txt", text)
                bags.append(f"{rating} {_bag(text, numbers)} ")
            addresses = _addresses(samples, len(reviews[split, side]))
            samples.write(f"{TREE}/{split}/urls_{side}.txt", addresses)
        samples.write(f"{TREE}/{split}/labeledBow.feat", "\n".join(bags) + "\n")
    for number, text in enumerate(unlabelled):
        samples.write(f"{TREE}/train/unsup/{number}_0.txt", text)
    samples.write(f"{TREE}/train/urls_unsup.txt", _addresses(samples, len(unlabelled)))
    unlabelled_bags = "".join(f"0 {_bag(text, numbers)} \n" for text in unlabelled)
    samples.write(f"{TREE}/train/unsupBow.feat", unlabelled_bags)
    samples.write(f"{TREE}/imdb.vocab", "\n".join(vocabulary) + "\n")
    expected = "".join(f"{samples.draw.uniform(-2, 2):.14f}\n" for _ in vocabulary)
    samples.write(f"{TREE}/imdbEr.txt", expected)
    samples.write(
        f"{TREE}/README",
        "Large Movie Review Dataset v1.0\n\nOverview\n\nThis dataset contains movie reviews along "
        "with their associated binary sentiment polarity labels.\n",
    )
    samples.describe(
        "imdb-folders",
        name="IMDB",
        form="aclImdb folder tree",
        kind="classification",
        published_by="https://ai.stanford.edu/~amaas/data/sentiment/",
        notes="files <id>_<rating>.txt; unsup under train only (rating 0); urls_*.txt, *Bow.feat, "
        "imdb.vocab, imdbEr.txt and README are not texts of the set",
        within="aclImdb",
    )


def _hub(samples: Samples, reviews: Reviews, unlabelled: list[str]) -> dict[str, list[Row]]:
    """Write the repository stanfordnlp/imdb, whose splits are sorted by their labels."""
    splits = {
        split: [
            {"text": text, "label": number}
            for number, side in enumerate(("neg", "pos"))
            for text in reviews[split, side]
        ]
        for split in ("train", "test")
    }
    splits["unsupervised"] = [{"text": text, "label": -1} for text in unlabelled]
    samples.write_hub(
        "imdb-hub-parquet", splits, IMDB_COLUMNS, folder="plain_text", config="plain_text"
    )
    samples.describe(
        "imdb-hub-parquet",
        name="IMDB",
        form="hub parquet (stanfordnlp/imdb)",
        kind="classification",
        published_by=f"{HUB}stanfordnlp/imdb",
        notes="train/test sorted by label (all neg, then all pos; order from memory); "
        "unsupervised split with label -1; no validation",
    )
    return splits
