"""The published shapes of one public set give the same texts, whatever the shape."""

from dataclasses import replace

import pytest
from benchmarks.public_samples.__main__ import main
from tests.paths import ROOT

from hotloop.core.env import ENV
from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.records import find_sources, head, records
from hotloop.data.sampling.train_and_valid import in_classes, used
from hotloop.data.tokenising.chat_templates import CHATML, Template
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.plan import by_position

SHARED = ROOT.parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="shared/data is not here")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    main([str(folder)])
    return folder / "data"


def read(place, shape=None, **fields):
    """Return what is trained on of a set: text, pair and label of each row; and the bad rows."""
    files = in_classes(find_sources([str(place)]).files)[0] if shape == "pair" else None
    files = find_sources([str(place)]).files if files is None else files
    files = by_position(used(files, (), is_one=False)[0], fields)
    found = layout([row for _, row in head(files[0], 200)], shape=shape, fields=fields)
    template = Template(source=CHATML) if found.shape == "chat" else None
    texts, faults, bad = [], Faults("skip"), 0
    for _, row in records(files, faults):
        try:
            texts += [(t.text.strip(), t.pair, t.label) for t in found.texts(row, template)]
        except DataError:
            bad += 1
    return sorted(texts, key=str), bad + faults.count


# Forms of one set: each a folder with the keys that a user names.
FORMS = {
    "SST-2": [("sst2-hub-parquet", {}), ("sst2-save-to-disk", {}), ("hf-hub-cache", {})],
    "MNLI": [("mnli-hub-parquet", {}), ("multinli-hub-parquet", {})],
    "SNLI": [("snli-jsonl", {}), ("snli-hub-parquet", {})],
    "QNLI": [("qnli-glue-tsv", {}), ("qnli-hub-parquet", {})],
    "CLINC150": [("clinc150-json", {"text_a": "0", "label": "1"}), ("clinc150-hub-parquet", {})],
}
ANSWERED = {
    "SQuAD 1.1": [("squad-json", {}), ("squad-hub-parquet", {})],
    "SQuAD 2.0": [("squad2-json", {}), ("squad2-hub-parquet", {})],
    "XSum": [("xsum-jsonl", {}), ("xsum-hub-parquet", {})],
    "HumanEval": [("humaneval-jsonl", {}), ("humaneval-gz", {})],
}


def place_of(samples, slug, monkeypatch):
    if slug != "hf-hub-cache":
        return samples / slug
    cache = replace(ENV, hub=samples / slug / "huggingface" / "hub")
    monkeypatch.setattr("hotloop.data.readers.hub_rows.cached_folder.__defaults__", (cache,))
    return "stanfordnlp/sst2"


@pytest.mark.parametrize("name", FORMS)
def test_labelled_sets_are_the_same_rows_in_each_form(name, samples, monkeypatch):
    monkeypatch.chdir(samples)
    results = [
        read(place_of(samples, slug, monkeypatch), "pair", **fields) for slug, fields in FORMS[name]
    ]
    assert len(results[0][0]) > 300
    for rows, bad in results[1:]:
        assert rows == results[0][0]
        assert bad == results[0][1]


@pytest.mark.parametrize("name", ANSWERED)
def test_sets_with_answers_are_the_same_texts_in_each_form(name, samples):
    first, *others = [read(samples / slug, **fields)[0] for slug, fields in ANSWERED[name]]
    assert len(first) > 150
    assert all(rows == first for rows in others)
    if name == "SQuAD 2.0":
        assert any(text.endswith("\nunanswerable") for text, _, _ in first)


def test_glues_labels_are_numbers_and_the_hubs_are_names(samples):
    numbers, _ = read(samples / "sst2-glue-tsv" / "SST-2", "pair")
    names, _ = read(samples / "sst2-hub-parquet", "pair")
    word = {"0": "negative", "1": "positive"}
    assert sorted((text, word[label]) for text, _, label in numbers) == sorted(
        (text, label) for text, _, label in names
    )


def test_every_line_of_parallel_texts_and_of_a_table_without_header_is_a_row(samples):
    pairs, empty = read(samples / "wmt-moses", prompt="de", response="en")
    lines = (samples / "wmt-moses" / "train.de").read_text().splitlines()
    assert len(pairs) + empty == len(lines) > 300
    table, empty = read(samples / "wmt-tsv", prompt="0", response="1")
    (file,) = (samples / "wmt-tsv").glob("*.tsv")
    assert len(table) + empty == len(file.read_text().split("\n")) - 1 > 300


def test_unlabelled_texts_of_imdb_are_no_class(samples):
    rows, bad = read(samples / "imdb-folders" / "aclImdb", "pair")
    assert {label for _, _, label in rows} == {"neg", "pos"}
    assert bad == 0
    assert not any(text.startswith("http://www.imdb.com") for text, _, _ in rows)


@pytest.mark.parametrize(
    "slug", ["oasst1-trees", "ultrachat-jsonl", "openhermes-json", "sharegpt-json"]
)
def test_chats_end_with_an_answer_that_carries_loss(slug, samples):
    files = find_sources([str(samples / slug)]).files
    rows = [row for _, row in head(files[0], 100)]
    found, template = layout(rows), Template(source=CHATML)
    assert found.shape == "chat"
    whole = [row for row in rows if row.get("conversations") != []]  # ShareGPT has empty ones
    texts = [text for row in whole for text in found.texts(row, template)]
    assert len(texts) > 80
    assert all(text.learned for text in texts)
