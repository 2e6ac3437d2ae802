import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cleanup.disks import GONE, NOW, checkpoint, environment, hold, made, spoil, temp

from hotloop.cleanup.clean import remove
from hotloop.cleanup.disk_use import CleanupRequest
from hotloop.cleanup.runs import run_shelf
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing


def judged(run, **asked):
    order = CleanupRequest(environment=environment(run.parent), now=lambda: NOW, **asked)
    return run_shelf(run, run.parent, order, lambda text: None)


def steps(shelf, *, goes):
    return [item.step for item in shelf.items if item.step is not None and item.goes == goes]


def reasons(shelf):
    return {item.step or item.path.name: item.why for item in shelf.items}


def test_the_newest_and_the_best_stay_and_older_ones_go(tmp_path):
    run = made(tmp_path / "r", best=20)
    for step in (10, 20, 30, 40, 50):
        checkpoint(run, step)
    shelf = judged(run)
    assert steps(shelf, goes=True) == [10, 30]
    assert reasons(shelf) == {
        10: "older",
        20: "best",
        30: "older",
        40: "one of the 2 newest",
        50: "one of the 2 newest",
    }
    assert (shelf.name, shelf.state, shelf.why) == ("r", "complete", None)
    assert shelf.bytes > sum(item.bytes for item in shelf.items) > 5000


def test_what_the_run_itself_keeps_stays_unless_another_number_is_asked_for(tmp_path):
    run = made(tmp_path / "r", keep=4)
    for step in (10, 20, 30, 40, 50):
        checkpoint(run, step)
    assert steps(judged(run), goes=True) == [10]
    assert steps(judged(run, keep=3), goes=True) == [10, 20]
    assert steps(judged(run, keep=0), goes=True) == [10, 20, 30], "two stay, whatever is asked for"


@pytest.mark.parametrize("keep", [None, "many", True, -3])
def test_a_run_that_does_not_say_keeps_two(tmp_path, keep):
    run = made(tmp_path / "r", keep=keep)
    for step in (10, 20, 30):
        checkpoint(run, step)
    assert steps(judged(run), goes=True) == [10]


def test_the_best_of_a_run_that_never_ended_is_known_by_its_checkpoints(tmp_path):
    run = made(tmp_path / "r", status="running")
    checkpoint(run, 10)
    checkpoint(run, 20, loss=1.5)
    checkpoint(run, 30, loss=2.5)
    checkpoint(run, 40, best=10)
    checkpoint(run, 50, best=10)
    shelf = judged(run)
    assert shelf.state == "crashed"
    assert steps(shelf, goes=True) == [30]
    assert reasons(shelf)[10] == reasons(shelf)[20] == "best"


def test_broken_ones_are_evidence_and_do_not_count(tmp_path):
    run = made(tmp_path / "r")
    paths = {step: checkpoint(run, step) for step in (10, 20, 30, 40, 50)}
    spoil(paths[50])
    (paths[40] / "MANIFEST.json").unlink()
    paths[10].rename(paths[10].with_name("step-00000010.broken-0123abcd"))
    shelf = judged(run)
    assert steps(shelf, goes=True) == []
    assert reasons(shelf)[50] == reasons(shelf)[40] == "broken: evidence"
    assert reasons(shelf)["step-00000010.broken-0123abcd"] == "broken: evidence"
    asked = judged(run, broken=True)
    assert {item.path.name for item in asked.can_go} == {
        "step-00000050", "step-00000040", "step-00000010.broken-0123abcd",
    }  # fmt: skip


def test_where_all_are_broken_nothing_goes(tmp_path):
    run = made(tmp_path / "r")
    for step in (10, 20, 30):
        spoil(checkpoint(run, step))
    assert judged(run).can_go == ()
    asked = judged(run, broken=True)
    assert asked.can_go == ()
    assert set(reasons(asked).values()) == {"the only one, though broken"}


def test_few_checkpoints_are_not_read(tmp_path):
    run, told = made(tmp_path / "r"), []
    order = CleanupRequest(environment=environment(tmp_path), now=lambda: NOW)
    for count, step in enumerate((10, 20, 30), 1):
        checkpoint(run, step)
        told.clear()
        run_shelf(run, tmp_path, order, told.append)
        assert len(told) == (3 if count == 3 else 0)


@pytest.mark.parametrize("host", [None, "another-machine"])
def test_nothing_goes_of_a_run_that_a_process_may_be_at(tmp_path, host):
    run = made(tmp_path / "r", status="running")
    for step in (10, 20, 30, 40):
        checkpoint(run, step)
    temp(RunDir(run).checkpoints, "step-00000050")
    hold(run, host=host)
    shelf = judged(run, broken=True, keep=2)
    assert shelf.can_go == ()
    assert "is at it" in shelf.why
    assert set(reasons(shelf).values()) == {shelf.why}
    hold(run, pid=GONE)
    assert steps(judged(run), goes=True) == [10, 20]


def test_what_a_crash_left_goes(tmp_path):
    run = made(tmp_path / "r", status="running")
    inside = temp(RunDir(run).checkpoints, "step-00000050", age=1.0)
    beside = temp(run, "run.json")
    shelf = judged(run)
    assert [(item.path, item.kind, item.bytes) for item in shelf.can_go] == [
        (inside, "unfinished", 50),
        (beside, "unfinished", 50),
    ]


def test_a_temp_beside_the_checkpoints_may_be_somebody_elses(tmp_path):
    run = made(tmp_path / "r")
    temp(run, "report.html", age=10.0)
    temp(run, "tracked.json", pid=os.getpid())
    shelf = judged(run)
    assert shelf.can_go == ()
    assert set(reasons(shelf).values()) == {
        "changed within the hour",
        f"process {os.getpid()} may be writing it",
    }


def test_a_damaged_run_keeps_all(tmp_path):
    run = made(tmp_path / "r")
    for step in (10, 20, 30, 40):
        checkpoint(run, step)
    (run / "run.json").write_text("{")
    shelf = judged(run, broken=True)
    assert (shelf.state, shelf.can_go) == ("damaged", ())
    assert "is not valid JSON" in shelf.why
    assert [(item.step, item.why) for item in shelf.items] == [
        (step, shelf.why) for step in (10, 20, 30, 40)
    ]


def test_other_names_are_left_alone(tmp_path):
    run = made(tmp_path / "r")
    for name in (".tmp-mine", ".gone-x-1-xyz", "step-1", "x.broken-mine", "best"):
        (RunDir(run).checkpoints / name).mkdir(parents=True)
    assert judged(run, broken=True, keep=2).items == ()


@settings(max_examples=15, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["sound", "broken", "torn"]), max_size=6),
    keep=st.integers(0, 4),
    best=st.integers(0, 6),
    broken=st.booleans(),
)
def test_the_promise_holds_for_any_folder(tmp_path_factory, kinds, keep, best, broken):
    run = made(tmp_path_factory.mktemp("c") / "r", keep=keep, best=best)
    for step, kind in enumerate(kinds, 1):
        path = checkpoint(run, step)
        if kind == "broken":
            spoil(path)
        elif kind == "torn":
            (path / "state.json").unlink()
    sound = [one.step for one in listing(RunDir(run).checkpoints, verify=True) if one.sound]
    shelf = judged(run, broken=broken)
    going = set(steps(shelf, goes=True))
    assert not going & set(sound[-max(2, keep) :]), "the newest that verify stay"
    assert best not in going & set(sound), "the best stays"
    assert broken or going <= set(sound), "evidence stays"
    assert not broken or not sound or going >= set(range(1, len(kinds) + 1)) - set(sound)
    assert len(set(sound) - going) >= min(2, len(sound))


@pytest.mark.parametrize("busy", [True, False])
def test_what_lies_behind_a_link_is_another_runs(busy, tmp_path):
    """Seen: --yes followed a `checkpoints` link, and deleted in the folder of a running run."""
    other, run = made(tmp_path / "other"), made(tmp_path / "r")
    for step in (10, 20, 30, 40):
        checkpoint(other, step)
    temp(RunDir(other).checkpoints, "step-00000050")
    if busy:
        hold(other)
    RunDir(run).checkpoints.symlink_to(RunDir(other).checkpoints)
    order = CleanupRequest(environment=environment(tmp_path), now=lambda: NOW, broken=True)
    shelf = run_shelf(run, tmp_path, order, lambda text: None)
    assert shelf.can_go == ()
    assert f"is a link to {RunDir(other).checkpoints}" in shelf.why
    before = sorted(RunDir(other).checkpoints.iterdir())
    assert remove(shelf, order) == ([], [])
    assert sorted(RunDir(other).checkpoints.iterdir()) == before
