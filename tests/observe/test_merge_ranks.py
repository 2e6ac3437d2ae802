from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.observe.merge_ranks import gathered, leave, wait_for


def of(rank: int, step: float, *, world: int = 2, count: int = 8):
    process = ProcessFacts(rank=rank, world=world, ranks={"step": (step,), f"only {rank}": (1.0,)})
    return healthy(steps=Steps(count=count, wall=(step,)), process=process)


def test_the_figures_of_all_ranks_stand_side_by_side_in_their_order(tmp_path):
    leave(of(1, 0.2), tmp_path)
    case, is_here = gathered(of(0, 0.1), tmp_path)
    assert is_here
    assert case.process.ranks == {"step": (0.1, 0.2)}
    assert case.not_checked == healthy().not_checked
    assert [case.process.rank_at(place) for place in (0, 1)] == [0, 1]


def test_a_parent_tells_what_its_children_saw(tmp_path):
    parent = healthy(steps=Steps(count=0))
    for rank in (1, 0):
        leave(of(rank, 0.1 + rank), tmp_path)
    case, is_here = gathered(parent, tmp_path)
    assert (is_here, case.process.rank) == (False, 0)
    assert case.process.ranks == {"step": (0.1, 1.1)}


def test_a_child_that_is_no_rank_may_be_the_one_that_trained(tmp_path):
    alone = healthy(steps=Steps(count=20))
    leave(alone, tmp_path)
    assert gathered(healthy(steps=Steps(count=0)), tmp_path)[0].steps.count == 20


def test_ranks_that_left_nothing_are_named(tmp_path):
    leave(of(2, 0.1, world=4), tmp_path)
    case, _ = gathered(of(0, 0.1, world=4), tmp_path)
    assert case.not_checked[-1] == "process 1, 3 of the group: nothing was left by it"
    assert [case.process.rank_at(place) for place in (0, 1)] == [0, 2]


def test_a_damaged_case_is_said(tmp_path):
    (tmp_path / "case-1-7.json").write_text("{}")
    case, is_here = gathered(replace(healthy(), not_checked=()), tmp_path)
    assert is_here
    assert case.not_checked[0].startswith("a child process: the case has schema None")


def test_a_rank_that_is_late_is_not_waited_for_for_ever(tmp_path):
    leave(of(1, 0.1), tmp_path)
    wait_for([1], tmp_path)
    wait_for([1, 2], tmp_path, patience=0.05)
