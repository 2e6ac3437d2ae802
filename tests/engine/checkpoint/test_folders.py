import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import CheckpointError
from hotloop.core.storage.files import write_folder
from hotloop.engine.checkpoint.folders import (
    STATE,
    beyond,
    listing,
    newest_sound,
    path_of,
    retain,
    verified,
)


def put(folder: Path, step: int, loss: float | None = None) -> Path:
    path = path_of(folder, step)
    state = {"saved_at": "2026-11-20T12:00:00+00:00", "validation_loss": loss}
    write_folder(path, {STATE: [json.dumps(state).encode()], "model.safetensors": [b"x" * 64]})
    return path


def spoil(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"y" * 64)


def test_the_newest_is_found_by_step_and_never_by_time(tmp_path):
    for step in (30, 9, 100):
        put(tmp_path, step)
    put(tmp_path, 40)
    newest, broken = newest_sound(tmp_path)
    assert (newest.step, broken) == (100, [])
    assert [one.step for one in listing(tmp_path)] == [9, 30, 40, 100]


def test_broken_ones_are_passed_over_and_named(tmp_path):
    put(tmp_path, 1)
    spoil(put(tmp_path, 2))
    (put(tmp_path, 3) / STATE).unlink()
    newest, broken = newest_sound(tmp_path)
    assert newest.step == 1
    assert [(one.step, *one.broken) for one in broken] == [
        (3, f"{STATE} is missing"),
        (2, broken[1].broken[0]),
    ]
    assert "damaged" in broken[1].broken[0]


def test_none_at_all_is_no_error_but_all_broken_is(tmp_path):
    assert newest_sound(tmp_path) == (None, [])
    spoil(put(tmp_path, 1))
    spoil(put(tmp_path, 2))
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints") as caught:
        newest_sound(tmp_path)
    assert "step-00000001" in str(caught.value)
    assert "step-00000002" in str(caught.value)


def test_what_may_go_is_told_without_removing_it(tmp_path):
    for step in (1, 2, 3, 4):
        put(tmp_path, step)
    spoil(put(tmp_path, 5))
    assert beyond(listing(tmp_path), keep=2, best_step=None) == [], "nothing was verified"
    checked = [verified(one) for one in listing(tmp_path)]
    assert [one.step for one in beyond(checked, keep=2, best_step=None)] == [1, 2]
    assert [one.step for one in beyond(checked, keep=0, best_step=1)] == [2]
    assert len(listing(tmp_path)) == 5


@settings(max_examples=40, deadline=None)
@given(
    moves=st.lists(st.sampled_from(["save", "break", "best"]), min_size=1, max_size=12),
    keep=st.integers(2, 4),
)
def test_retention_under_any_sequence(tmp_path_factory, moves, keep):
    folder, best, last_sound = tmp_path_factory.mktemp("c"), None, None
    for step, move in enumerate(moves, 1):
        path = put(folder, step)
        if move == "break":
            spoil(path)
        else:
            last_sound = step
            best = step if move == "best" else best
        before = listing(folder, verify=True)
        retain(folder, keep=keep, best_step=best)
        after = listing(folder, verify=True)
        sound = [one.step for one in after if one.sound]
        was = [one.step for one in before if one.sound]
        assert sound[-keep:] == was[-keep:], "the newest sound ones stay"
        assert len(sound) <= keep + 1
        assert best is None or best in sound
        assert [o.step for o in after if not o.sound] == [o.step for o in before if not o.sound]
    assert last_sound is None or newest_sound(folder)[0].step == last_sound
