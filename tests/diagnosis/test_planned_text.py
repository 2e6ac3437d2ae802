import pytest
from tests.judging import finding


def test_a_limit_nobody_typed_is_said(case_of, tmp_path):
    config = tmp_path / "more.yaml"
    config.write_text("data:\n  max_chars: 1000\n")
    typed = case_of("data.max_chars=1000")
    assert finding("X5", typed, "characters are read") is None
    assert finding("X5", case_of(), "characters are read") is None
    read = case_of(config_file=config)
    assert "first 1,000 characters" in finding("X5", read, "are read").claim


def test_characters_that_only_validation_has_are_counted(case_of, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abcdefghi\n" * 90 + "abcdefgh#\n" * 10)
    found = finding("R11 unseen_characters", case_of(f"data.path={text}"))
    assert (found.rule, found.severity) == ("R11 unseen_characters", "warn")
    assert found.claim.startswith("10% of the validation part (10)")
    assert found.evidence["most often"] == "'#' 10x"
    text.write_text("abcdefghi\n" * 100)
    assert finding("R11 unseen_characters", case_of(f"data.path={text}")) is None


def test_a_small_validation_says_how_well_its_loss_is_known(case_of):
    found = finding("R2 small_validation", case_of())
    assert found.severity == "warn"
    assert found.claim.startswith("a validation reads 192 characters: its loss is known to about")
    few = finding("R2 small_validation", case_of("training.eval_batches=1"))
    assert "96 characters" in few.claim


def test_the_noise_of_another_objective_is_not_guessed(case_of):
    assert finding("R2 small_validation", case_of("objective=diffusion", "model.dropout=0")) is None


def test_validation_large_enough_is_not_mentioned(case_of, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abcdefghi\n" * 20_000)
    assert finding("R2 small_validation", case_of(f"data.path={text}")) is None


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
    assert finding("X1", case_of(lines(0)), "of the training text, in lines") is None
    assert (
        finding("X1", case_of(lines(150)), "of the training text, in lines") is None
    )  # 100 of them are validation
    found = finding("X1", case_of(lines(450)), "of the training text, in lines")
    assert (found.rule, found.severity) == ("X1 repeated_data", "warn")
    assert found.claim.startswith("39% of the training text")
    assert found.evidence["most often"].startswith("2x 'line 00")


def test_validation_lines_that_training_has_shown_are_said(case_of, lines):
    assert finding("X1", case_of(lines(0)), "of the validation text") is None
    found = finding("X1", case_of(lines(50)), "of the validation text")
    assert found.severity == "warn"
    assert found.claim.startswith("50% of the validation text")


def test_the_number_of_real_epochs_is_said(case_of):
    assert finding("X1", case_of("training.max_steps=76"), "steps read the training") is None
    some = finding("X1", case_of("training.max_steps=80"), "steps read the training")
    assert some.severity == "note"
    many = finding("X1", case_of("training.max_steps=4864"), "steps read the training")
    assert many.severity == "warn"
    assert many.claim == "4,864 steps read the training text 256 times: once takes 19 steps"
    assert many.remedies[0].text == "training.max_steps=76 reads it 4 times"


def test_text_that_is_never_read_is_said(case_of):
    found = finding("X5", case_of("training.max_steps=10"), "all of it once")
    assert found.claim.startswith("10 steps read 52.6% of the training text; all of it once")
    assert finding("X5", case_of("training.max_steps=19"), "all of it once") is None


def test_what_drop_last_costs_is_said(case_of):
    settings = ["data.drop_last=true", "training.batch_size=60"]
    found = finding("X5", case_of(*settings), "drop_last")
    assert found.severity == "warn"
    assert "50 of 110 windows (45%)" in found.claim
    assert finding("X5", case_of("data.drop_last=true"), "drop_last") is None
    assert finding("X5", case_of("training.batch_size=60"), "drop_last") is None


def test_a_batch_that_cannot_be_filled_is_said(case_of):
    assert finding("C4", case_of("training.batch_size=110"), "batch_size") is None
    found = finding("C4", case_of("training.batch_size=111"), "batch_size")
    assert "training.batch_size=111 is not in effect" in found.claim
    assert "only 110 windows" in found.claim
