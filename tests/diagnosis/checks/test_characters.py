import pytest

from hotloop.diagnosis.checks import characters


def test_a_limit_nobody_typed_is_said(case_of, corpus, tmp_path):
    config = tmp_path / "more.yaml"
    config.write_text("data:\n  max_chars: 1000\n")
    typed = case_of("data.max_chars=1000")
    assert characters.cut_text(typed) is None
    assert characters.cut_text(case_of()) is None
    origins = {**typed.parts.request.origins, "data.max_chars": "preset cpu"}
    object.__setattr__(typed.parts.request, "origins", origins)
    assert "first 1,000 characters" in characters.cut_text(typed).claim


def test_characters_that_only_validation_has_are_counted(case_of, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abcdefghi\n" * 90 + "abcdefgh#\n" * 10)
    found = characters.unseen_characters(case_of(f"data.path={text}"))
    assert (found.rule, found.severity) == ("R11 unseen_characters", "warn")
    assert found.claim.startswith("10% of the validation part (10)")
    assert found.evidence["most often"] == "'#' 10x"
    text.write_text("abcdefghi\n" * 100)
    assert characters.unseen_characters(case_of(f"data.path={text}")) is None


def test_a_small_validation_says_how_well_its_loss_is_known(case_of):
    found = characters.small_validation(case_of())
    assert found.severity == "warn"
    assert found.claim.startswith("a validation reads 192 characters: its loss is known to about")
    few = characters.small_validation(case_of("training.eval_batches=1"))
    assert "96 characters" in few.claim


def test_the_noise_of_another_objective_is_not_guessed(case_of):
    assert characters.small_validation(case_of("objective=diffusion", "model.dropout=0")) is None


def test_validation_large_enough_is_not_mentioned(case_of, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abcdefghi\n" * 20_000)
    assert characters.small_validation(case_of(f"data.path={text}")) is None


@pytest.fixture
def lines(tmp_path):
    """A text of 1,000 different long lines, of which the last so many stood there before."""

    def make(repeated: int):
        each = [f"line {i:05d} of a text that is longer than forty characters" for i in range(1000)]
        each[1000 - repeated :] = each[:repeated]
        path = tmp_path / "lines.txt"
        path.write_text("\n".join(each) + "\n")
        return f"data.path={path}"

    return make


def test_repeated_lines_of_training_are_said(case_of, lines):
    assert characters.repeated_lines(case_of(lines(0))) is None
    assert characters.repeated_lines(case_of(lines(150))) is None  # 100 of them are validation
    found = characters.repeated_lines(case_of(lines(450)))
    assert (found.rule, found.severity) == ("X1 repeated_data", "warn")
    assert found.claim.startswith("39% of the training text")
    assert found.evidence["most often"].startswith("2x 'line 00")


def test_validation_lines_that_training_has_shown_are_said(case_of, lines):
    assert characters.leaked_lines(case_of(lines(0))) is None
    found = characters.leaked_lines(case_of(lines(50)))
    assert found.severity == "warn"
    assert found.claim.startswith("50% of the validation text")
