"""Where a run begins: at its newest sound checkpoint, or at step 0 with the weights it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.training import checkpoint, store
from hotloop.training.feed import Position
from hotloop.training.held import whole
from hotloop.training.messages import Note
from hotloop.training.weights import load_weights, vocabulary_beside

if TYPE_CHECKING:
    from hotloop.assemble import Assembly
    from hotloop.core.rundir import RunDir
    from hotloop.session import Session
    from hotloop.training.messages import Tell

__all__ = ["restore", "start_weights"]


def restore(run: RunDir, parts: Assembly, session: Session, tell: Tell) -> Position:
    """Put the session where the newest sound checkpoint left it, or at the initial weights."""
    step, ranks = 0, parts.ranks
    with ranks.together():
        if ranks.rank == 0:
            step = _newest(run, tell)
    if step := ranks.exchange(step)[0]:
        path = store.path_of(run.checkpoints, step)
        return checkpoint.restore(path, session, parts.identity)
    return start_weights(parts, session, tell)


def _newest(run: RunDir, tell: Tell) -> int:
    """Return the step of the newest sound checkpoint, or 0; tell of broken ones."""
    newest, broken = store.newest_sound(run.checkpoints)
    for bad in broken:
        faults = "; ".join(bad.broken or ())
        instead = f"step {newest.step}" if newest else "step 0"
        tell(Note(text=f"{bad.path.name} is broken ({faults}); {instead} is used", warning=True))
    return newest.step if newest else 0


def start_weights(parts: Assembly, session: Session, tell: Tell) -> Position:
    """Put the session at step 0, with the weights of `init_from` where there is one."""
    if parts.job.begins:
        with whole(session):
            notes = load_weights(session.model, *parts.job.begins)
        for note in notes:
            tell(Note(text=note, warning=True))
    if parts.request.config.init_from:
        source = Path(parts.request.config.init_from)
        with whole(session):
            notes = load_weights(session.model, source)
        here = parts.job.kept.get("vocabulary.json")
        if here is not None and vocabulary_beside(source) not in (None, json.loads(here)):
            notes.insert(
                0, "its vocabulary is another: rows of the embedding stand for other characters"
            )
        for note in notes:
            tell(Note(text=f"init_from: {note}", warning=True))
    return Position()
