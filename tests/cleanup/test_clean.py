import errno
import os

import pytest
from tests.cleanup.disks import GONE, NOW, checkpoint, environment, hold, made, spoil, temp

from hotloop.cleanup.clean import look, remove
from hotloop.cleanup.disk_use import CleanupRequest
from hotloop.core.errors import UsageError
from hotloop.core.storage.files import Disk
from hotloop.core.storage.rundir import RunDir


@pytest.fixture
def order(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    return CleanupRequest(environment=environment(tmp_path), now=lambda: NOW)


@pytest.fixture
def run(tmp_path):
    run = made(tmp_path / "runs" / "r", best=20)
    for step in (10, 20, 30, 40, 50):
        checkpoint(run, step)
    return run


def left(run):
    return sorted(path.name for path in RunDir(run).checkpoints.iterdir())


def test_runs_below_a_folder_come_by_path_and_then_the_cache(tmp_path, order, run):
    made(tmp_path / "runs" / "a")
    order.environment.cache.mkdir()
    shelves = look(tmp_path / "runs", order).shelves
    assert [shelf.name for shelf in shelves] == ["a", "r", str(order.environment.cache)]
    assert left(run) == [f"step-{step:08d}" for step in (10, 20, 30, 40, 50)], "nothing goes yet"


def test_a_folder_that_is_not_there_is_refused(tmp_path, order):
    with pytest.raises(UsageError, match="is no folder"):
        look(tmp_path / "gone", order)


def test_what_can_go_goes_and_the_rest_stays_sound(tmp_path, order, run):
    half = temp(RunDir(run).checkpoints, "step-00000060")
    (shelf,) = look(tmp_path / "runs", order).shelves
    gone, wrong = remove(shelf, order)
    assert (gone, wrong) == (list(shelf.can_go), [])
    assert left(run) == [f"step-{step:08d}" for step in (20, 40, 50)]
    assert not half.exists()
    assert not RunDir(run).has_lock
    (again,) = look(tmp_path / "runs", order).shelves
    assert again.can_go == ()


def test_a_run_that_somebody_went_on_with_meanwhile_keeps_all(tmp_path, order, run):
    (shelf,) = look(tmp_path / "runs", order).shelves
    hold(run)
    before = left(run)
    gone, (why,) = remove(shelf, order)
    assert gone == []
    assert "is in use by process" in why
    assert left(run) == before


def test_what_broke_meanwhile_is_judged_again(tmp_path, order, run):
    (shelf,) = look(tmp_path / "runs", order).shelves
    spoil(RunDir(run).checkpoints / "step-00000050")
    spoil(RunDir(run).checkpoints / "step-00000010")
    gone, wrong = remove(shelf, order)
    assert (gone, wrong) == ([], []), "30 is one of the two newest now, and 10 is evidence"
    assert len(left(run)) == 5


def test_what_came_meanwhile_was_not_shown_and_stays(tmp_path, order, run):
    (shelf,) = look(tmp_path / "runs", order).shelves
    checkpoint(run, 60)
    gone, _ = remove(shelf, order)
    assert [item.step for item in gone] == [10, 30]
    assert left(run)[-3:] == [f"step-{step:08d}" for step in (40, 50, 60)]


def test_the_lock_of_a_process_that_is_gone_is_taken_over(tmp_path, order, run):
    hold(run, pid=GONE)
    (shelf,) = look(tmp_path / "runs", order).shelves
    assert len(remove(shelf, order)[0]) == 2
    assert not RunDir(run).has_lock


def test_a_link_to_a_checkpoint_goes_alone(tmp_path, order, run):
    target = tmp_path / "elsewhere"
    (RunDir(run).checkpoints / "step-00000010").rename(target)
    (RunDir(run).checkpoints / "step-00000010").symlink_to(target)
    (shelf,) = look(tmp_path / "runs", order).shelves
    remove(shelf, order)
    assert "step-00000010" not in left(run)
    assert (target / "state.json").exists()


def test_what_cannot_be_removed_is_said_and_the_rest_goes(tmp_path, order, run):
    def rename(source, target):
        if source.name == "step-00000010":
            raise OSError(errno.EROFS, "Read-only file system")
        os.replace(source, target)

    (shelf,) = look(tmp_path / "runs", order).shelves
    gone, (why,) = remove(shelf, order, disk=Disk(rename=rename))
    assert [item.step for item in gone] == [30]
    assert "step-00000010: Read-only file system" in why
    assert not RunDir(run).has_lock


def test_a_cache_is_cleared_of_what_was_shown(tmp_path, order):
    tokens = order.environment.cache / "tokens" / ("0" * 32)
    tokens.mkdir(parents=True)
    (tokens / "x").write_bytes(b"x")
    os.utime(tokens / "x", (1e9, 1e9))
    asked = CleanupRequest(environment=order.environment, now=order.now, unused=1.0)
    (shelf,) = look(tmp_path, asked).shelves
    told = []
    assert len(remove(shelf, asked, told.append)[0]) == 1
    assert told == [f"removing {tokens}"]
    assert not tokens.exists()
