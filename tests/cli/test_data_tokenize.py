"""hotloop data tokenize, as it is typed."""

import json
import subprocess
import sys

import pytest
from tests.golden.tiny_tokenizer import save

from hotloop.cli.main import main


@pytest.fixture
def model(tmp_path):
    save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": f"{n}?", "response": "fox"}) + "\n" for n in range(9))
    )
    return path


def typed(rows, model, out, *more):
    return main(
        ["data", "tokenize", str(rows), "--tokenizer", str(model), "--out", str(out), *more]
    )


def test_it_makes_a_folder_and_prints_its_name(model, rows, tmp_path, capsys):
    report = tmp_path / "made.json"
    assert typed(rows, model, tmp_path / "out", "--pack", "32", "--json", str(report)) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'out'}\n"
    assert "train: " in err
    assert "rows of at most" in err
    assert "carry loss" in err
    told = json.loads(report.read_text())
    assert told["splits"]["train"]["documents"] == 9
    assert told["identity"]["loss"] == "completion"
    assert typed(rows, model, tmp_path / "out", "--pack", "32") == 0
    assert "it is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said", "code"),
    [
        (["--pack", "0"], "--pack must be 1 or more, not 0", 2),
        (["--pack", "8", "--max-length", "4"], "do not go together", 2),
        (["--fields", "prompt"], "expected PART=KEY", 2),
        (["--fields", "prompt=a,prompt=b"], "names 'prompt' twice", 2),
        (["--fields", "promt=prompt"], "", 65),
        (["--shape", "chat"], "needs messages", 65),
        (
            [
                "--template",
                "chatml",
                "--shape",
                "text",
                "--fields",
                "text=prompt",
                "--ignore",
                "response",
            ],
            "--template is for chats and answers",
            78,
        ),
        (["--loss", "assistant"], "is for chat rows", 78),
        (["--ray-address", "auto"], "--ray-address is for --engine ray", 2),
        (["--engine", "ray", "--processes", "0"], "--processes 1 or more", 78),
        (["--engine", "ray", "--ray-address", "there"], "expected HOST:PORT or auto", 78),
        (["--engine", "ray", "--ray-address", "127.0.0.1:1"], "no Ray cluster answers at", 69),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    model, rows, tmp_path, capsys, more, said, code
):
    assert typed(rows, model, tmp_path / "out", *more) in (code, 78)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bad_rows_end_with_65_and_their_places(model, rows, tmp_path, capsys):
    rows.write_text('{"prompt": "a", "response": "b"}\n{"prompt": "a"}\n')
    assert typed(rows, model, tmp_path / "out") == 65
    assert "rows.jsonl:2: key 'response' is missing" in capsys.readouterr().err


def test_names_with_control_characters_are_made_visible(model, tmp_path, capsys):
    path = tmp_path / "a\x1b[31mb.jsonl"
    path.write_text('{"text": "fox"}\n{"text": ""}\n')
    assert typed(path, model, tmp_path / "out", "--bad", "skip") == 0
    assert "\x1b" not in capsys.readouterr().err


def test_torch_is_not_needed_for_it(model, rows, tmp_path):
    code = (
        "import sys\n"
        "from hotloop.cli.main import main\n"
        f"code = main(['data', 'tokenize', {str(rows)!r}, '--tokenizer', {str(model)!r},"
        f" '--out', {str(tmp_path / 'out')!r}])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
