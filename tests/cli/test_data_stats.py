import io
import json
import re
import shutil

import pytest
from rich.console import Console
from tests.data.tokenising.test_tokenize import jsonl, lines, make
from tests.golden.tiny_tokenizer import save

from hotloop.cli.data_stats import run
from hotloop.cli.main import main
from hotloop.data.tokenising.rows import Packing


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


@pytest.fixture
def rows(tmp_path):
    asked = [{"prompt": line, "response": "a lazy [bold]dog"} for line in lines(60)]
    (tmp_path / "data").mkdir()
    jsonl(tmp_path / "data" / "train.jsonl", asked)
    jsonl(tmp_path / "data" / "test.jsonl", asked[:3])
    return tmp_path / "data"


def shown(*args, width=120):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    assert run([*map(str, args), "-q", "--processes", "0"], console=out) == 0
    return out.file.getvalue()


def test_files_of_rows_are_counted_with_a_tokenizer(model, rows):
    said = shown(rows, "--tokenizer", model)
    assert "train\n  60 documents, " in said
    assert "recommended: packed: " in said
    assert "«a lazy [bold]dog</s>»" in said
    assert "test: 3 (100.0%) are a copy of one of train" in said
    assert "one is there 2 times:" in said


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_width_can_be_read(model, rows, width):
    said = shown(rows, "--tokenizer", model, "--length", 20, width=width).splitlines()
    assert all(len(line) <= width for line in said)
    assert any(re.match(r"  \* packed +\S+% +\d+ +\d\.\d\dx +0\.0%$", line) for line in said)
    assert any(re.match(r"  +[\d,]+ tokens +\S+% +\S+%$", line) for line in said)
    assert any("█" in line for line in said)


def test_a_folder_of_tokens_is_read_as_it_is(model, rows, tmp_path):
    out = tmp_path / "tokens"
    make(model, out, rows, packing=Packing(tokens=256))
    said = shown(out)
    assert "batches of 16 rows of at most 256 tokens" in said
    assert "«a lazy [bold]dog</s>»" in said
    straight = shown(rows, "--tokenizer", model, "--length", 256)
    assert _figures(said) == _figures(straight)
    with_rows = tmp_path / "rows"
    make(model, with_rows, rows, packing=Packing())
    assert _figures(shown(with_rows, "--length", 256)) == _figures(straight)


def test_pieces_of_cut_documents_are_not_said_to_stay_whole(model, rows, tmp_path):
    for tokens, is_whole in ((256, True), (16, False)):
        make(model, tmp_path / str(tokens), rows, packing=Packing(tokens=tokens))
        said = _flat(shown(tmp_path / str(tokens), "--length", 256))
        assert "recommended: packed: " in said
        assert ("every document stays whole" in said) is is_whole
        assert ("texts were cut" in said) is not is_whole


def _flat(said):
    return " ".join(said.split())


def _figures(said):
    """Return the lines of sums and lengths: packing changes no more than the order."""
    return [line for line in said.splitlines() if "documents, " in line or "median" in line]


def test_without_its_tokenizer_a_folder_shows_ids_and_says_so(model, rows, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(model, own)
    make(own, tmp_path / "tokens", rows, packing=Packing(tokens=256))
    save(own, size=300)
    said = shown(tmp_path / "tokens")
    assert "is not the one of these tokens: ids are shown" in _flat(said)
    shutil.rmtree(own)
    said = shown(tmp_path / "tokens")
    assert "tokenizer of these tokens is gone" in _flat(said)
    assert re.search(r"document 1\n    \d+ \d+ ", said)
    again = shown(tmp_path / "tokens", "--tokenizer", model)
    assert "«a lazy [bold]dog</s>»" in again


def test_json_and_html_are_written(model, rows, tmp_path, capsys):
    asked = ["data", "stats", str(rows), "--tokenizer", str(model), "--processes", "0"]
    paths = ["--json", str(tmp_path / "s.json"), "--html", str(tmp_path / "s.html")]
    assert main([*asked, *paths, "--lengths", "8,32"]) == 0
    found = json.loads((tmp_path / "s.json").read_text())
    assert [split["name"] for split in found["splits"]] == ["train", "test"]
    assert [cut["length"] for cut in found["splits"][0]["cuts"]] == [8, 32]
    assert (tmp_path / "s.html").read_text().startswith("<!doctype html>")
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "recommended" in captured.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--tokenizer DIR_OR_ID says whose"),
        (["--tokenizer", "TOK", "--lengths", "8,x"], "--lengths '8,x'"),
        (["--tokenizer", "TOK", "--lengths", "0"], "--lengths '0'"),
        (["--tokenizer", "TOK", "--batch", "0"], "--batch must be 1 or more, not 0"),
        (["--tokenizer", "TOK", "--multiple", "0"], "--multiple must be 1 or more, not 0"),
        (["--tokenizer", "TOK", "--samples", "-1"], "--samples must be 0 or more, not -1"),
    ],
)
def test_what_cannot_be_is_refused(model, rows, args, said, capsys):
    asked = [str(model) if each == "TOK" else each for each in args]
    assert main(["data", "stats", str(rows), *asked]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_of_tokens_stands_alone(model, rows, tmp_path, capsys):
    make(model, tmp_path / "tokens", rows)
    assert main(["data", "stats", str(tmp_path / "tokens"), str(rows)]) == 2
    assert "name it alone" in capsys.readouterr().err


def test_control_characters_of_the_data_are_not_printed(model, tmp_path):
    source = jsonl(tmp_path / "train.jsonl", [{"text": "a \x1b[31mdog\u202e\nthe fox"}])
    said = shown(source, "--tokenizer", model)
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "    the fox" in said
