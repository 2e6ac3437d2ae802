import io
from pathlib import Path

import pytest

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.cli.sample import _progress


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny) -> Path:
    out = tmp_path_factory.mktemp("diffusion") / "run"
    assert main(["train", "-q", "char-lm", "--out", str(out), *tiny, "objective=diffusion"]) == 0
    return out


def test_a_text_between_prompt_and_suffix_is_printed_alone(trained, capsys):
    argv = ["sample", str(trained), "--prompt", "the ", "--suffix", " dÉg", "--steps", "4"]
    assert main([*argv, "--samples", "2"]) == 0
    captured = capsys.readouterr()
    found = captured.out.removesuffix("\n").split("\n---\n")
    assert [(text[:4], text[-4:], len(text)) for text in found] == [("the ", " dÉg", 16)] * 2
    used, unseen = captured.err.splitlines()
    assert used.startswith("hotloop: this is the last checkpoint, of step 40 (12 held-out samples")
    assert unseen == "hotloop: not in the vocabulary, read as <unk>: ['É']"
    run = load_run(trained)
    assert found == run.sample(prompt="the ", suffix=" dÉg", steps=4, samples=2)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--temperature", "0.8"], "leave --temperature out"),
        (["--length", "17"], "this run denoises windows of 16"),
        (["--prompt", ""], "at least one character"),
        (["--samples", "0"], "1 or more"),
    ],
)
def test_what_the_run_cannot_do_is_a_usage_error(trained, argv, said, capsys):
    assert main(["sample", str(trained), *argv]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_wiped_at_the_end():
    now, screen = iter([0.0, 0.5, 1.5, 1.55, 3.0]), Terminal()
    notify = _progress(screen, lambda: next(now))
    for done in range(1, 6):
        notify(done, 5)
    assert screen.getvalue() == "\r\x1b[2Ksampling 2/5\r\x1b[2Ksampling 4/5\r\x1b[2K"


def test_a_short_wait_and_a_file_see_no_progress():
    screen = Terminal()
    notify = _progress(screen, lambda: 0.0)
    for done in range(1, 6):
        notify(done, 5)
    assert screen.getvalue() == ""
    assert _progress(io.StringIO()) is None
