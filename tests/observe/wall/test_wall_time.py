"""The folding of tapes that are written out by hand: letters for marks, a millisecond each."""

import pytest

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.wall.wall_time import Folded, Mark, fold, steps_in

MS = 1_000_000
OPENS = {
    "N": EventCode.NEXT,
    "F": EventCode.FORWARD,
    "E": EventCode.EVAL,
    "X": EventCode.SILENT,
    "B": EventCode.BACKWARD,
    "U": EventCode.UPDATE,
    "S": EventCode.SAVE,
    "C": EventCode.COMPILE,
    "O": EventCode.OWN,
    "I": EventCode.ITERATE,
    "W": EventCode.WAIT,
    "H": EventCode.COPY,
}


def marked(events: str) -> list[Mark]:
    """Return the marks of a tape: N opens a span, n closes it, ! ends; a space is a millisecond in
    which nothing is marked; a digit after a letter numbers the loader, module or optimizer.
    """
    marks: list[Mark] = []
    at, index = 0, 0
    while index < len(events):
        letter = events[index]
        index += 1
        number = events[index] if index < len(events) and events[index].isdigit() else "0"
        index += number != "0" or (index < len(events) and events[index] == "0")
        if letter == "!":
            marks.append((at * MS, int(EventCode.END), 0))
        elif letter != " ":
            code = OPENS[letter.upper()] + letter.islower()
            marks.append((at * MS, code, int(number)))
        at += 1
    return marks


def folded(events: str) -> Folded:
    return fold(marked(events))


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


def test_an_evaluation_with_gradients_needs_no_loader_to_be_told():
    step = "FfBbUu"
    found = folded(step * 3 + "XxXxXx" + step * 3)
    assert [(s.batches, s.with_grad, s.training_mode) for s in found.stretches] == [
        (3, True, False)
    ]
    attack = "XxBb"  # a pass in evaluation mode that has a backward pass of its own
    assert folded((attack + step) * 3).stretches == []


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


def test_a_wait_for_the_gpu_has_its_row_wherever_the_step_waits():
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


def test_an_agent_that_mostly_acts_by_chance_is_not_evaluated():
    distances = [9, 4, 12, 1, 7, 3, 5, 2, 8, 6, 11, 4]
    found = folded("".join("FfBbUu" * distance + "Ee " for distance in distances) + "FfBbUu")
    assert not found.stretches


def test_an_evaluation_of_one_batch_now_and_then_is_one():
    assert len(folded(("FfBbUu" * 20 + "Ee") * 9 + "FfBbUu").stretches) == 9


def step_of(optimizer: int) -> str:
    return f"NnFfBbU{optimizer}u{optimizer}"


def test_optimizers_that_are_used_one_after_another_make_steps_of_their_own():
    folds = folded("".join(step_of(fold) * 10 for fold in range(6)))
    assert (len(folds.ends), folds.optimizers) == (60, 1)
    stages = folded(step_of(0) * 2 + step_of(1) * 20)
    assert (len(stages.ends), stages.backwards) == (22, [1] * 21)


def test_a_warm_up_of_one_optimizer_makes_steps_before_they_take_turns():
    found = folded(step_of(1) * 50 + (step_of(0) + step_of(1)) * 40)
    assert (len(found.ends), found.optimizers) == (90, 2)
    assert found.backwards == [1] * 49 + [2] * 40


def test_many_optimizers_under_the_last_number_are_no_stage_of_their_own():
    marks, last = [], 63
    for at, number in enumerate(([0, 1, 2] + [last] * 40) * 3):
        marks += [(2 * at, EventCode.UPDATE, number), (2 * at + 1, EventCode.UPDATE_END, number)]
    assert len(fold(marks).ends) == 3


def test_the_step_of_an_update_is_found_where_steps_take_different_numbers_of_them():
    critic, actor = step_of(0), step_of(1)
    found = folded((critic * 5 + actor) * 3)
    assert [found.steps_after(updates) for updates in (0, 5, 6, 11, 12, 18)] == [0, 0, 1, 1, 2, 3]
    assert steps_in(marked((critic * 5 + actor) * 3)) == 3
    assert steps_in(marked("NnFfBb" * 4)) == 4


@pytest.mark.parametrize("batch", ["Nn", ""])
def test_what_each_step_does_without_gradients_before_its_update_is_the_step(batch):
    mining = batch + "EeEe Ee" + "FfBbUu"
    found = folded(mining * 30)
    assert not found.stretches
    assert ms(found, "evaluate") == 0
    assert found.trains == ({0} if batch else set())
    assert not found.evaluates
    assert ms(found, "forward") == 30 * (7 + 2)


def test_an_evaluation_beside_such_work_stays_one():
    held_out = "N1n1EeN1n1EeN1n1Ee"
    found = folded(("NnEeEeFfBbUu" * 20 + held_out) * 3)
    assert [stretch.batches for stretch in found.stretches] == [3, 3, 3]
    assert (found.trains, found.evaluates) == ({0}, {1})


@pytest.mark.parametrize(
    ("events", "batches"),
    [
        ((STEP + "N1n1EeN1n1Ee") * 30, 2),  # a held-out loader, after every step
        ("N1n1EeN1n1Ee" + (STEP + "N1n1EeN1n1Ee") * 29, 2),  # and before the first
        ((STEP + "N1n1Ee") * 30, 1),
        (("FfBbUu" + "N1n1Ee") * 30, 1),  # the only loader
        ((STEP + "EeEe") * 30, 2),  # held-out tensors
        ("EeEe" + (STEP + "EeEe") * 29, 2),
        (("FfBbUu" + "Ee") * 30, 1),  # one graph: a step an epoch
    ],
)
def test_an_evaluation_after_every_step_is_one(events, batches):
    found = folded(events)
    assert [stretch.batches for stretch in found.stretches] == [batches] * 30
    assert 1 not in found.trains


def test_rollouts_of_any_length_before_each_update_are_the_step():
    found = folded("".join("Ee " * (1 + step % 5) + "FfBbUu" for step in range(40)))
    assert not found.stretches
