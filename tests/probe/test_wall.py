"""The folding of tapes that are written out by hand: letters for marks, a millisecond each."""

import pytest

from hotloop.probe.tape import Code
from hotloop.probe.wall import Folded, fold

MS = 1_000_000
OPENS = {
    "N": Code.NEXT,
    "F": Code.FORWARD,
    "E": Code.EVAL,
    "X": Code.SILENT,
    "B": Code.BACKWARD,
    "U": Code.UPDATE,
    "S": Code.SAVE,
    "C": Code.COMPILE,
    "O": Code.OWN,
    "I": Code.ITERATE,
    "W": Code.WAIT,
    "H": Code.COPY,
}


def folded(tape: str, number: str = "") -> Folded:
    """Fold a tape: N opens a span, n closes it, ! ends; a space is a millisecond in which nothing
    is marked; a digit after a letter is the number of the loader, module or optimizer.
    """
    marks, at, index = [], 0, 0
    while index < len(tape):
        letter = tape[index]
        index += 1
        number = tape[index] if index < len(tape) and tape[index].isdigit() else "0"
        index += number != "0" or (index < len(tape) and tape[index] == "0")
        if letter == "!":
            marks.append((at * MS, int(Code.END), 0))
        elif letter != " ":
            code = OPENS[letter.upper()] + letter.islower()
            marks.append((at * MS, code, int(number)))
        at += 1
    return fold(marks)


def ms(found: Folded, row: str) -> int:
    return round(found.rows[row] * 1e3)


STEP = "NnFfBbUu"


def test_every_nanosecond_has_a_row():
    found = folded("Oo" + STEP * 3 + "  !")
    assert round(sum(found.rows.values()) * 1e3) == len("Oo" + STEP * 3 + "  !") - 1
    assert ms(found, "own") == 1


def test_a_plain_step_is_split_at_its_marks():
    found = folded(STEP * 4)
    rows = {row: ms(found, row) for row in found.rows}
    assert rows == {
        "data wait": 4,
        "prepare": 4,
        "forward": 8,  # the loss, between forward and backward, is part of it
        "backward": 4,
        "optimizer": 8,  # clipping, between backward and update, is part of it
        "after step:": 3,
    }
    assert len(found.ends) == 4
    assert found.how == "optimizer"
    assert [round(sum(step.values()) * 1e3) for step in found.steps] == [8, 8, 8]


def test_accumulation_makes_one_step_of_several_backward_passes():
    found = folded("NnFfBbNnFfBbUu" * 3)
    assert len(found.ends) == 3
    assert found.backwards == [2, 2]


def test_an_evaluation_is_told_by_its_missing_gradients():
    found = folded(STEP + "N1n1EeN1n1Ee" + STEP)
    assert found.trains == {0}
    assert found.evaluates == {1}
    (stretch,) = found.stretches
    assert (stretch.step, stretch.batches, stretch.loader) == (1, 2, 1)
    assert not stretch.with_grad
    assert ms(found, "evaluate") == 8  # up to the next training batch


def test_an_evaluation_with_gradients_is_told_by_its_missing_backward_pass():
    found = folded(STEP * 2 + "N1n1XxN1n1Xx" + STEP * 2)
    (stretch,) = found.stretches
    assert stretch.with_grad
    assert not stretch.training_mode


def test_a_frozen_trunk_without_gradients_belongs_to_training():
    found = folded("NnE1e1F2f2BbUu" * 3)
    assert not found.stretches
    assert ms(found, "evaluate") == 0


def test_hand_made_batches_leave_an_evaluation_of_the_same_model():
    found = folded("FfBbUu" * 3 + "EeEe" + "FfBbUu" * 3)
    (stretch,) = found.stretches
    assert stretch.batches == 2


def test_two_optimizers_make_one_step():
    found = folded("NnF1f1BbU1u1F2f2BbU2u2" * 3)
    assert len(found.ends) == 3
    assert found.optimizers == 2


def test_the_rarer_optimizer_ends_the_step():
    found = folded("NnFfBbU1u1" * 3 + "FfBbU2u2" + "NnFfBbU1u1" * 3 + "FfBbU2u2")
    assert len(found.ends) == 2


def test_without_an_optimizer_a_backward_pass_ends_the_step():
    found = folded("NnFfBb" * 3)
    assert (len(found.ends), found.how) == (3, "backward")


def test_a_closure_runs_forward_and_backward_inside_the_update():
    found = folded("NnUFfBbFfBbu" * 3)
    assert len(found.ends) == 3
    assert ms(found, "forward") == 3 * 2
    assert ms(found, "backward") == 3 * 2


@pytest.mark.parametrize(("letter", "row"), [("S", "save"), ("C", "compile"), ("O", "own")])
def test_what_overrules_does_so_inside_a_span(letter, row):
    found = folded("NnF" + letter + "  " + letter.lower() + "fBbUu" + STEP)
    assert ms(found, row) == 3
    assert ms(found, "forward") == 2 + 4 - 1 + 0 or ms(found, "forward") > 0


def test_a_gap_looks_through_a_save_at_what_stands_before_it():
    found = folded(STEP + "Ss" + STEP)
    assert ms(found, "save") == 1
    assert ms(found, "after step:") == 2


def test_an_update_that_raised_does_not_hold_what_follows():
    found = folded("NnFfBbU" + STEP * 2)
    assert ms(found, "optimizer") == 8  # the failed one lasts to the next update, no longer
    assert ms(found, "after step:") == 1


def test_waits_are_kept_by_loader_and_the_first_of_an_epoch_with_its_start():
    found = folded("I  iN nFfBbUu" + "N  nFfBbUu")
    assert [round(wait * 1e3) for wait in found.waits[0]] == [2, 3]
    assert [round(wait * 1e3) for wait in found.first_waits[0]] == [3 + 2]
    assert found.epochs[0] == 1


def test_a_wait_for_the_card_has_its_row_wherever_the_step_waits():
    found = folded("NnHhFWwfBbUu  Ww " + STEP * 2)
    assert ms(found, "host waits") == 2
    assert ms(found, "host to device") == 1
    assert ms(found, "forward") == 1 + 1 + 1 + 2 * 2  # before and after the wait, and the loss


def test_a_wait_in_an_evaluation_a_save_or_before_the_training_is_part_of_it():
    found = folded("Ww" + STEP + "NnEWweWwNnEe" + STEP + "SWws" + STEP + "Ww!")
    assert ms(found, "host waits") == 0
    assert ms(found, "start:") == 2
    assert ms(found, "save") == 3


def test_a_wait_does_not_change_what_a_gap_is():
    with_wait, without = folded(STEP + "  Ww  " + STEP), folded(STEP + "      " + STEP)
    rows = {row: ms(with_wait, row) for row in with_wait.rows if row != "host waits"}
    assert rows == {row: ms(without, row) - (row == "after step:") for row in without.rows}


def test_an_agent_that_acts_between_its_steps_is_not_evaluated():
    found = folded("Ee FfBbUu" * 20)
    assert not found.stretches
    assert ms(found, "evaluate") == 0
    assert round(sum(found.rows.values()) * 1e3) == 20 * len("Ee FfBbUu") - 1


def test_an_evaluation_of_one_batch_now_and_then_is_one():
    assert len(folded(("FfBbUu" * 20 + "Ee") * 9 + "FfBbUu").stretches) == 9
