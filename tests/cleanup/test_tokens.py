import json
import os

import pytest
from tests.cleanup.disks import GONE, environment, made
from tests.data.tokenising.test_tokenize import jsonl, lines
from tests.data.tokenising.test_tokenize import make as tokenised
from tests.golden.tiny_tokenizer import save

from hotloop.cleanup.clean import look, remove
from hotloop.cleanup.disk_use import CleanupRequest
from hotloop.cleanup.tokens import lock_of, token_shelves
from hotloop.core.storage.lock import LockHolder


@pytest.fixture
def order(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    return CleanupRequest(environment=environment(tmp_path))


@pytest.fixture
def room(tmp_path):
    """What Ctrl-C leaves of `data/tokens` once some of it is written."""
    save(tmp_path / "model")
    source = jsonl(tmp_path / "rows.jsonl", [{"text": line} for line in lines(400)])

    def interrupt(at):
        if at.tokens > 6000:  # two windows
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tokenised(tmp_path / "model", tmp_path / "data" / "tokens", source, notify=interrupt)
    (room,) = (tmp_path / "data").glob(".*.unfinished")
    return room


def hold(room, **changes):
    me = LockHolder.me()
    holder = {"pid": me.pid, "host": me.host, "boot": me.boot, "started": me.started, **changes}
    room.with_name(".tokens.lock").write_text(json.dumps(holder))


def test_what_tokenising_left_is_found_and_goes(tmp_path, order, room):
    (shelf,) = look(tmp_path, order).shelves
    assert (shelf.name, shelf.state) == ("data/.tokens.unfinished", "tokens")
    assert [item.path for item in shelf.can_go] == [room]
    assert shelf.bytes > 1000
    told = []
    assert remove(shelf, order, told.append) == (list(shelf.can_go), [])
    assert told == [f"removing {room}"]
    assert list((tmp_path / "data").iterdir()) == []
    assert token_shelves(tmp_path) == []


def test_what_a_process_is_at_stays(tmp_path, order, room):
    hold(room)
    (shelf,) = token_shelves(tmp_path)
    assert shelf.can_go == ()
    assert shelf.why == f"process {os.getpid()} on {LockHolder.me().host} is at it"
    hold(room, host="elsewhere")
    assert token_shelves(tmp_path)[0].can_go == (), "nothing here can tell"


def test_what_a_process_took_up_meanwhile_stays(tmp_path, order, room):
    (shelf,) = token_shelves(tmp_path)
    hold(room)
    gone, (why,) = remove(shelf, order)
    assert gone == []
    assert "is in use by process" in why
    assert room.is_dir()


def test_the_lock_of_a_process_that_is_gone_holds_nothing(tmp_path, order, room):
    hold(room, pid=GONE, started=None)
    (shelf,) = token_shelves(tmp_path)
    assert len(remove(shelf, order)[0]) == 1
    assert list((tmp_path / "data").iterdir()) == []


def test_a_lock_that_a_writer_took_keeps_the_folder_until_it_is_given_back(tmp_path, room):
    lock = lock_of(room)
    lock.acquire()
    assert token_shelves(tmp_path)[0].can_go == ()
    lock.release()
    assert len(token_shelves(tmp_path)[0].can_go) == 1


def test_what_was_finished_meanwhile_is_not_there_to_go(tmp_path, order, room):
    (shelf,) = token_shelves(tmp_path)
    room.rename(room.with_name("tokens"))
    assert remove(shelf, order) == ([], [])


def test_only_what_has_the_name_and_the_contents_is_ours(tmp_path, room):
    for name, text in (("a", None), ("b", "[]"), ("c", "{}"), ("d", "{"), ("e", '{"format": 1}')):
        folder = tmp_path / f".{name}.unfinished"
        folder.mkdir()
        if text is not None:
            (folder / "identity.json").write_text(text)
    hidden = tmp_path / ".hidden" / ".x.unfinished"
    hidden.mkdir(parents=True)
    inside = made(tmp_path / "run") / ".y.unfinished"
    inside.mkdir()
    for folder in (hidden, inside, tmp_path / "z.unfinished"):
        folder.mkdir(exist_ok=True)
        (folder / "identity.json").write_bytes((room / "identity.json").read_bytes())
    (tmp_path / ".link.unfinished").symlink_to(room)
    assert [shelf.path for shelf in token_shelves(tmp_path)] == [room]
    assert [shelf.name for shelf in token_shelves(room.parent)] == [room.name]
