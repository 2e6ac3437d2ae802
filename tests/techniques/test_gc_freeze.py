import gc

from tests.golden.jobs import session_of

from hotloop import techniques


def test_what_was_frozen_is_collected_again_after_undo() -> None:
    session, before = session_of(), gc.get_freeze_count()
    assert techniques.get("gc-freeze").apply(session) > 0
    assert gc.get_freeze_count() > before
    session.undo["gc-freeze"]()
    assert gc.get_freeze_count() == 0
