import json

import pytest

from hotloop.core.errors import DataError, DeviceError
from hotloop.export.trackers.follow import PATIENCE, POLL, TrackerUpload, follow

from .conftest import AT, resumed, session, step, validation


@pytest.fixture
def feed(folder, tracker):
    def fresh():
        return TrackerUpload(folder, "tensorboard", tracker.open, name="mine", project="hotloop")

    return fresh


def test_all_points_are_sent_once_however_often_it_is_called(feed, tracker, add):
    add(session(), step(1), step(2), validation(2))
    assert feed().catch_up() == 4 + 4 + 2
    assert feed().catch_up() == 0
    add(step(3))
    assert feed().catch_up() == 4
    assert tracker.losses() == [(1, 2.0), (2, 2.0), (3, 2.0)]
    assert tracker.runs["run-1"][-1].at == AT + 4.0  # the session was in an earlier call


def test_the_tracker_is_told_what_runs_and_left_alone_when_nothing_is_new(feed, tracker, add):
    add(session(), step(1))
    feed().catch_up()
    feed().catch_up()
    assert len(tracker.openings) == 1
    opening = tracker.openings[0]
    assert (opening.name, opening.project, opening.id, opening.after) == (
        "mine", "hotloop", None, 0,
    )  # fmt: skip
    assert opening.facts["hardware.name"] == "Test CPU"


def test_a_later_call_goes_on_with_the_tracker_s_run(feed, tracker, add):
    add(session(), step(1))
    feed().catch_up()
    add(step(2))
    feed().catch_up()
    assert (tracker.openings[1].id, tracker.openings[1].after) == ("run-1", 1)


def test_a_torn_last_line_waits_for_its_rest(feed, tracker, add):
    add(session(), step(1), tail=step(2)[:20])
    feed().catch_up()
    add(tail=step(2)[20:] + "\n")
    feed().catch_up()
    assert tracker.losses() == [(1, 2.0), (2, 2.0)]


def test_what_a_resume_made_void_is_never_sent(feed, tracker, add):
    add(session(), step(1), step(2, loss=9.0), session(), resumed(1), step(2, loss=1.0))
    feed().catch_up()
    assert tracker.losses() == [(1, 2.0), (2, 1.0)]


def test_a_tracker_that_can_takes_back_what_became_void(feed, tracker, add):
    tracker.takes_back = True
    add(session(), step(1), step(2, loss=9.0))
    feed().catch_up()
    add(session(), resumed(1), step(2, loss=1.0))
    feed().catch_up()
    assert tracker.losses() == [(1, 2.0), (2, 1.0)]
    assert list(tracker.runs) == ["run-1"]


def test_any_other_tracker_gets_a_new_run_with_all_that_counts(feed, tracker, add):
    add(session(), step(1), step(2, loss=9.0))
    feed().catch_up()
    add(session(), resumed(1), step(2, loss=1.0))
    feed().catch_up()
    assert tracker.losses("run-2") == [(1, 2.0), (2, 1.0)]
    assert tracker.closed == [("run-1", "stopped")]
    add(step(3))
    feed().catch_up()
    assert tracker.losses("run-2")[-1] == (3, 2.0)


def test_a_resume_that_made_nothing_void_goes_on(feed, tracker, add):
    add(session(), step(1))
    feed().catch_up()
    add(session(), resumed(1), step(2))
    feed().catch_up()
    assert tracker.losses() == [(1, 2.0), (2, 2.0)]


def test_what_the_tracker_refused_is_sent_again(feed, tracker, add):
    add(session(), step(1))
    tracker.down = True
    with pytest.raises(DeviceError):
        feed().catch_up()
    tracker.down = False
    feed().catch_up()
    assert tracker.losses() == [(1, 2.0)]
    assert list(tracker.runs) == ["run-1"]


def test_closing_tells_how_the_run_stands(feed, tracker, add):
    add(session(), step(1))
    fed = feed()
    fed.close()
    assert tracker.closed == []  # nothing was opened
    fed.catch_up()
    fed.close()
    assert tracker.closed == [("run-1", "complete")]


def test_another_run_in_the_folder_is_refused(feed, folder, add):
    add(session(), step(1))
    feed().catch_up()
    folder.events_file().write_text(session() + "\n")
    with pytest.raises(DataError, match=r"another run is there. Delete .*tracked-tensorboard.json"):
        feed().catch_up()


@pytest.mark.parametrize("text", ['{"schema": 7}', '{"schema": 1, "bytes": "many"}', "torn"])
def test_a_damaged_cursor_names_its_file(feed, folder, text):
    folder.tracked("tensorboard").write_text(text)
    with pytest.raises(DataError, match=r"tracked-tensorboard\.json"):
        feed()


def test_a_line_that_is_no_event_is_refused(feed, add):
    add(json.dumps({"v": 99}))
    with pytest.raises(DataError, match="schema"):
        feed().catch_up()


def test_following_a_complete_run_ends_with_its_process(feed, tracker, add):
    add(session(), step(1))
    alive, waits = [True, True, False], []

    def wait(seconds):
        waits.append(seconds)
        add(step(1 + len(waits)))  # also after the last sign of life

    sent = follow(feed(), lambda: alive.pop(0), print, wait=wait)
    assert (alive, waits) == ([], [POLL] * 2)
    assert tracker.losses() == [(1, 2.0), (2, 2.0), (3, 2.0)]
    assert sent == 3 * 4


def test_following_a_run_that_was_cut_off_waits_for_a_resume(feed, folder, tracker, add):
    folder.update(status="running")
    add(session(), step(1))
    looks = []

    def alive():
        looks.append(len(looks) == PATIENCE - 1)  # somebody comes in the last moment, and goes
        return looks[-1]

    follow(feed(), alive, print, wait=lambda _: None)
    assert len(looks) == 2 * PATIENCE + 1


def test_a_tracker_that_comes_back_gets_everything(feed, tracker, add):
    add(session(), step(1))
    told, looks = [], [True, True, True, False]
    tracker.down = True

    def wait(_):
        tracker.down = len(looks) > 2

    follow(feed(), lambda: looks.pop(0), told.append, wait=wait)
    assert told == ["the tracker is down; trying again, the training is not touched"]
    assert tracker.losses() == [(1, 2.0)]


def test_a_tracker_that_stays_away_is_an_error_in_the_end(feed, tracker, add):
    add(session(), step(1))
    tracker.down = True
    with pytest.raises(DeviceError, match="is down"):
        follow(feed(), lambda: False, lambda _: None, wait=lambda _: None)
