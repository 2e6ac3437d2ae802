"""Sets of premises and hypotheses: MNLI in four forms, SNLI in two."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.public_samples.columns import label, value
from benchmarks.public_samples.writing import HUB, LIBRARY, json_lines, portions, tab_separated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["mnli", "snli"]

LABELS = ("entailment", "neutral", "contradiction")
NO_CONSENSUS = "-"
GENRES = ["government", "telephone", "fiction", "slate", "travel"]  # of matched rows
OTHER_GENRES = ["nineeleven", "facetoface", "letters", "oup", "verbatim"]  # of mismatched rows
PARSES_AND_TEXTS = [
    *("sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"),
    *("sentence1", "sentence2"),
]
FIVE_LABELS = ["label1", "label2", "label3", "label4", "label5"]
PUBLISHED = ("train", "dev_matched", "dev_mismatched")  # with labels
HUB_SPLITS = {
    "train": "train",
    "dev_matched": "validation_matched",
    "dev_mismatched": "validation_mismatched",
    "test_matched": "test_matched",
    "test_mismatched": "test_mismatched",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A premise and a hypothesis, with what the annotators said."""

    premise: str
    hypothesis: str
    gold: str
    labels: list[str]  # one or five; the first is its author's
    prompt: str  # number of the premise
    name: str
    genre: str
    caption: str = ""  # of the picture that an SNLI premise describes

    def parses_and_texts(self) -> list[str]:
        """Return six cells, in the order of PARSES_AND_TEXTS."""
        texts = [self.premise, self.hypothesis]
        return [*map(_binary_parse, texts), *map(_parse, texts), *texts]

    def numbered(self) -> int:
        """Return the number of the label, -1 without a consensus."""
        return -1 if self.gold == NO_CONSENSUS else LABELS.index(self.gold)


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def _binary_parse(text: str) -> str:
    """Return a tree in the notation of the sets; it branches to the right, whatever the text."""
    *before, tree = _tokens(text) or [""]
    for token in reversed(before):
        tree = f"( {token} {tree} )"
    return tree


def _parse(text: str) -> str:
    """Return a flat tree in Penn's notation."""
    return "(ROOT (S " + " ".join(f"(NN {token})" for token in _tokens(text)) + "))"


def _annotated(samples: Samples, row: Row, genres: Sequence[str], *, by_five: bool) -> Pair:
    """Return a pair with one label, or with five of which at least three agree."""
    draw, gold = samples.draw, row["label"]
    prompt = str(draw.randrange(150000))
    labels = [gold]
    if by_five:
        labels += [draw.choice([gold, gold, draw.choice(LABELS)]) for _ in range(4)]
        if labels.count(gold) < 3:
            labels[1:3] = [gold, gold]
    return Pair(
        premise=row["premise"],
        hypothesis=row["hypothesis"],
        gold=gold,
        labels=labels,
        prompt=prompt,
        name=prompt + gold[0],
        genre=draw.choice(genres),
    )


def _some_without_consensus(pairs: Sequence[Pair], *, every: int, first: int) -> list[Pair]:
    tie = ["entailment", "entailment", "neutral", "neutral", "contradiction"]
    return [
        replace(pair, gold=NO_CONSENSUS, labels=tie) if number % every == first else pair
        for number, pair in enumerate(pairs)
    ]


def mnli(samples: Samples, sources: Sources) -> None:
    """Write MNLI in four forms.

    The shapes are those of gluebenchmark.com's MNLI.zip, of the hub's nyu-mll/glue and
    nyu-mll/multi_nli, and of multinli_1.0.zip of cims.nyu.edu/~sbowman/multinli.
    """
    parts = portions(sources.inferences, 400, 150, 150, 120, 120)
    splits = {
        split: [
            _annotated(
                samples,
                row,
                OTHER_GENRES if split.endswith("mismatched") else GENRES,
                by_five=split.startswith("dev"),
            )
            for row in rows
        ]
        for split, rows in zip(HUB_SPLITS, parts, strict=True)
    }
    _mnli_tables(samples, splits)
    _mnli_glue(samples, splits)
    _mnli_hub(samples, splits)
    _mnli_json_lines(samples, splits)


def _mnli_tables(samples: Samples, splits: Mapping[str, Sequence[Pair]]) -> None:
    """Write GLUE's folder of tables; the header is the one that fastNLP's loader expects."""
    header = ["index", "promptID", "pairID", "genre", *PARSES_AND_TEXTS]
    columns = {"train": ["label1", "gold_label"], "dev": [*FIVE_LABELS, "gold_label"], "test": []}
    for split, pairs in splits.items():
        more = columns[split.partition("_")[0]]
        rows: list[list[Any]] = []
        for number, pair in enumerate(pairs):
            row = [number, pair.prompt, pair.name, pair.genre, *pair.parses_and_texts()]
            rows.append([*row, *pair.labels, pair.gold] if more else row)
        samples.write(f"mnli-glue-tsv/MNLI/{split}.tsv", tab_separated([*header, *more], rows))
    samples.describe(
        "mnli-glue-tsv",
        name="MNLI",
        form="GLUE TSV folder",
        kind="pairs",
        published_by="gluebenchmark.com MNLI.zip; header as in fastNLP loader / "
        f"{LIBRARY} datasets/glue/glue.py",
        notes="train has 12 columns (label1,gold_label), dev 16 (label1..label5,gold_label), test "
        "10 (no label); two dev and two test files; test files' header without labels is from "
        "memory",
        within="MNLI",
    )


def _mnli_glue(samples: Samples, splits: Mapping[str, Sequence[Pair]]) -> None:
    """Write the configuration mnli of the repository nyu-mll/glue."""
    columns = {
        "premise": value(),
        "hypothesis": value(),
        "label": label(*LABELS),
        "idx": value("int32"),
    }
    rows = {
        HUB_SPLITS[split]: [
            {
                "premise": pair.premise,
                "hypothesis": pair.hypothesis,
                "label": -1 if split.startswith("test") else pair.numbered(),
                "idx": number,
            }
            for number, pair in enumerate(pairs)
        ]
        for split, pairs in splits.items()
    }
    samples.write_hub("mnli-hub-parquet", rows, columns, folder="mnli", config="mnli")
    samples.describe(
        "mnli-hub-parquet",
        name="MNLI",
        form="hub parquet (nyu-mll/glue, config mnli)",
        kind="pairs",
        published_by=f"{HUB}nyu-mll/glue; {LIBRARY} datasets/glue/dataset_infos.json",
        notes="splits train, validation_matched, validation_mismatched, test_matched, "
        "test_mismatched; test label -1; folder by analogy with glue/sst2",
    )


def _mnli_hub(samples: Samples, splits: Mapping[str, Sequence[Pair]]) -> None:
    """Write the repository nyu-mll/multi_nli."""
    texts = ("premise", "premise_binary_parse", "premise_parse")
    other_texts = ("hypothesis", "hypothesis_binary_parse", "hypothesis_parse")
    columns = {"promptID": value("int32"), "pairID": value()}
    columns |= {name: value() for name in (*texts, *other_texts, "genre")}
    columns["label"] = label(*LABELS)
    rows = {
        HUB_SPLITS[split]: [
            {
                "promptID": int(pair.prompt),
                "pairID": pair.name,
                "premise": pair.premise,
                "premise_binary_parse": _binary_parse(pair.premise),
                "premise_parse": _parse(pair.premise),
                "hypothesis": pair.hypothesis,
                "hypothesis_binary_parse": _binary_parse(pair.hypothesis),
                "hypothesis_parse": _parse(pair.hypothesis),
                "genre": pair.genre,
                "label": pair.numbered(),
            }
            for pair in splits[split]
        ]
        for split in PUBLISHED
    }
    samples.write_hub("multinli-hub-parquet", rows, columns, folder="data")
    samples.describe(
        "multinli-hub-parquet",
        name="MultiNLI",
        form="hub parquet (nyu-mll/multi_nli)",
        kind="pairs",
        published_by=f"{HUB}nyu-mll/multi_nli; {LIBRARY} datasets/multi_nli/dataset_infos.json",
        notes="10 columns, four of them parses; no test split; data/ folder name from memory",
    )


def _write_twins(
    samples: Samples, place: str, pairs: Sequence[Pair], more: Mapping[str, Sequence[str]]
) -> None:
    """Write the same pairs as JSON lines and as a table, both with these columns of one set."""
    records, rows = [], []
    for number, pair in enumerate(pairs):
        cells = pair.parses_and_texts()
        own = {name: column[number] for name, column in more.items()}
        record = dict(zip(PARSES_AND_TEXTS, cells, strict=True)) | own
        record |= {"gold_label": pair.gold}
        records.append({**record, "annotator_labels": pair.labels})
        five = [*pair.labels, *[""] * 4][:5]
        rows.append([pair.gold, *cells, *own.values(), *five])
    header = ["gold_label", *PARSES_AND_TEXTS, *more, *FIVE_LABELS]
    samples.write(f"{place}.jsonl", json_lines(records, sort_keys=True))
    samples.write(f"{place}.txt", tab_separated(header, rows))


def _mnli_json_lines(samples: Samples, splits: Mapping[str, Sequence[Pair]]) -> None:
    """Write the folder multinli_1.0; some pairs of the dev parts have no consensus."""
    folder = "mnli-jsonl/multinli_1.0"
    for split in PUBLISHED:
        pairs = splits[split]
        if split != "train":
            pairs = _some_without_consensus(pairs, every=40, first=7)
        more = {
            "promptID": [pair.prompt for pair in pairs],
            "pairID": [pair.name for pair in pairs],
            "genre": [pair.genre for pair in pairs],
        }
        _write_twins(samples, f"{folder}/multinli_1.0_{split}", pairs, more)
    samples.write(f"{folder}/README.txt", "MultiNLI: The Multi-Genre NLI Corpus 1.0\n")
    samples.describe(
        "mnli-jsonl",
        name="MNLI",
        form="multinli_1.0 jsonl (+ the .txt twins)",
        kind="pairs",
        published_by="https://cims.nyu.edu/~sbowman/multinli/ ; "
        f"{LIBRARY} datasets/multi_nli/multi_nli.py",
        notes="the same rows lie twice (.jsonl and tab-separated .txt); dev has gold_label '-'; "
        "no test labels published (.txt header from memory)",
        within="multinli_1.0",
    )


def snli(samples: Samples, sources: Sources) -> None:
    """Write SNLI in two forms.

    The shapes are those of snli_1.0.zip of nlp.stanford.edu/projects/snli and of the hub's
    stanfordnlp/snli.
    """
    folder, splits = "snli-jsonl/snli_1.0", {}
    parts = portions(sources.inferences[300:], 400, 150, 150)
    for split, rows in zip(("train", "dev", "test"), parts, strict=True):
        splits[split] = _captioned(samples, rows, is_train=split == "train")
        more = {
            "captionID": [pair.caption for pair in splits[split]],
            "pairID": [pair.name for pair in splits[split]],
        }
        _write_twins(samples, f"{folder}/snli_1.0_{split}", splits[split], more)
    samples.write(f"{folder}/README.txt", "Stanford Natural Language Inference Corpus 1.0\n")
    samples.describe(
        "snli-jsonl",
        name="SNLI",
        form="snli_1.0 jsonl (+ the .txt twins)",
        kind="pairs",
        published_by="https://nlp.stanford.edu/projects/snli/ ; keys: allenai/deep_qa test "
        f"fixture; {LIBRARY} datasets/snli/snli.py",
        notes="gold_label '-' where annotators disagree; same rows twice (.jsonl, .txt)",
        within="snli_1.0",
    )
    _snli_hub(samples, splits)


def _captioned(samples: Samples, rows: Sequence[Row], *, is_train: bool) -> list[Pair]:
    """Return pairs named after their captions; a tenth of the train part has five labels."""
    pairs = [
        _annotated(samples, row, GENRES, by_five=not is_train or samples.draw.random() < 0.1)
        for row in rows
    ]
    found = []
    for pair in _some_without_consensus(pairs, every=50, first=11):
        picture, number = samples.draw.randrange(10**9, 10**10), samples.draw.randrange(5)
        caption = f"{picture}.jpg#{number}"
        found.append(replace(pair, caption=caption, name=f"{caption}r1{pair.labels[0][0]}"))
    return found


def _snli_hub(samples: Samples, splits: Mapping[str, Sequence[Pair]]) -> None:
    """Write the repository stanfordnlp/snli."""
    columns = {"premise": value(), "hypothesis": value(), "label": label(*LABELS)}
    rows = {
        hub_split: [
            {"premise": pair.premise, "hypothesis": pair.hypothesis, "label": pair.numbered()}
            for pair in splits[split]
        ]
        for hub_split, split in (("test", "test"), ("validation", "dev"), ("train", "train"))
    }
    samples.write_hub("snli-hub-parquet", rows, columns, folder="plain_text", config="plain_text")
    samples.describe(
        "snli-hub-parquet",
        name="SNLI",
        form="hub parquet (stanfordnlp/snli)",
        kind="pairs",
        published_by=f"{HUB}stanfordnlp/snli; {LIBRARY} datasets/snli/dataset_infos.json",
        notes="label -1 for no consensus, in train as well; folder plain_text/ from memory",
    )
