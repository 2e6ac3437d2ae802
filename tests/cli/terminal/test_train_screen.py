import pytest

from hotloop.cli.terminal.train_screen import progress_line
from hotloop.core.progress import Progress


def progress(**changes) -> Progress:
    values = {
        "step": 420, "steps": 5000, "epoch": 1, "loss": 1.8312, "learning_rate": 9.8e-4,
        "steps_per_s": 4.213, "samples_per_s": 202.2, "tokens_per_s": 51_700.0,
        "memory_bytes": 1.2 * (1 << 30), "utilisation": 0.93, "seconds_left": 1090.0,
        "steady_from": None,
    }  # fmt: skip
    return Progress(**{**values, **changes})


def test_the_whole_line():
    assert progress_line(progress(), 200) == (
        "step 420/5000  loss 1.8312  lr 9.8e-04  4.21 it/s  202 samples/s  51.7k tokens/s  "
        "mem 1.2 GiB  util 93%  left 18:10"
    )


@pytest.mark.parametrize("width", [10, 40, 60, 80, 100])
def test_a_narrow_line_keeps_what_matters(width):
    line = progress_line(progress(), width)
    assert line.startswith("step 420/5000")
    assert len(line) < max(width, 14)
    if width >= 40:
        assert "loss" in line


def test_unknown_is_said_and_never_zero():
    line = progress_line(progress(memory_bytes=None, utilisation=None, steady_from=4), 250)
    assert "mem unknown" in line
    assert "util unknown" in line
    assert "compiling: judge speed from step 4" in line


def test_losses_of_parts_stand_in_the_line_and_rates_go_first():
    parts = {"sentiment": 0.31234, "sentences": 2.0, "code": 8.19}
    line = progress_line(progress(parts=parts), 120)
    assert "senti 0.312 sente 2 code 8.19" in line
    assert "lr 9.8e-04" in line
    assert "mem 1.2 GiB  util 93%" in line
    assert "samples/s" not in line
    five = dict.fromkeys(("sentiment", "questions", "summaries", "code", "translation"), 8.4567)
    line = progress_line(progress(parts=five), 120)
    assert "lr 9.8e-04  mem 1.2 GiB  util 93%  left 18:10" in line
