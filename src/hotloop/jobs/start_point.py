"""Puts a run at its start: its newest sound checkpoint, or step 0 with initial weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.progress import Note
from hotloop.core.storage.files import read_json
from hotloop.engine.checkpoint import folders, state
from hotloop.engine.checkpoint.sharded_state import whole
from hotloop.engine.init_from import load_weights, vocabulary_beside
from hotloop.jobs.request import DATA_PATHS
from hotloop.recipes.building.declared_code import CODE
from hotloop.session.accumulation_windows import Position

if TYPE_CHECKING:
    from hotloop.core.progress import Notify
    from hotloop.core.storage.rundir import RunDir
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.session import Session

__all__ = ["beside", "refuse_changed", "restore", "start_weights"]

_MOVABLE = frozenset({*DATA_PATHS, CODE})  # settings that a resume may change


def beside(run: RunDir) -> dict[str, object]:
    """Return what determines a run and lies beside its checkpoints: settings, plan, model texts.

    Settings are returned as values, so that an error can name a changed one; the rest as digests.
    """
    config = run.read()["config"]
    assert isinstance(config, Mapping)
    return {
        "config": {key: value for key, value in config.items() if key not in _MOVABLE},
        "plan": digest(json.dumps(run.plan_file(), sort_keys=True)),
        "kept": {name: digest(text) for name, text in run.kept(must=False).items()},
    }


def refuse_changed(run: RunDir, folder: Path) -> None:
    """Raise DataError if a run's files differ from those its checkpoint `folder` was made with."""
    was: Any = read_json(folder / folders.STATE).get("beside")
    if not isinstance(was, Mapping):  # written by an older version
        return
    now: Any = beside(run)
    keys = sorted({*was["config"], *now["config"]})
    changed = [
        f"run.json has {key}={json.dumps(now['config'].get(key))}, it was "
        f"{json.dumps(was['config'].get(key))}"
        for key in keys
        if was["config"].get(key) != now["config"].get(key)
    ]
    changed += ["plan.json is another"] if was["plan"] != now["plan"] else []
    for name, sum_ in was["kept"].items():
        if now["kept"].get(name) != sum_:
            changed.append(f"{name} {'is another' if name in now['kept'] else 'is missing'}")
    if changed:
        lines = "\n  ".join(changed)
        raise DataError(
            f"{run.path} is not what {folder.name} was made with:\n  {lines}\n"
            "a file was damaged or changed: put it back, or begin a new run with other settings "
            f"from these weights (init_from={folder})"
        )


def restore(run: RunDir, prepared: PreparedRun, session: Session, notify: Notify) -> Position:
    """Restore the newest sound checkpoint, or the initial weights; return the position."""
    step, ranks = 0, prepared.ranks
    with ranks.together():
        if ranks.rank == 0:
            step = _newest(run, notify)
    if step := ranks.exchange(step)[0]:
        path = folders.path_of(run.checkpoints, step)
        refuse_changed(run, path)
        return state.restore(path, session, prepared.identity)
    return start_weights(prepared, session, notify)


def _newest(run: RunDir, notify: Notify) -> int:
    """Return the step of the newest sound checkpoint, or 0; report each broken one."""
    newest, broken = folders.newest_sound(run.checkpoints)
    for bad in broken:
        faults = "; ".join(bad.broken or ())
        instead = f"step {newest.step}" if newest else "step 0"
        notify(Note(text=f"{bad.path.name} is broken ({faults}); {instead} is used", warning=True))
    return newest.step if newest else 0


def start_weights(prepared: PreparedRun, session: Session, notify: Notify) -> Position:
    """Put the session at step 0, with the weights of `init_from` if it is set."""
    if prepared.job.begins:
        with whole(session):
            notes = load_weights(session.model, *prepared.job.begins)
        for note in notes:
            notify(Note(text=note, warning=True))
    if prepared.request.config.init_from:
        source = Path(prepared.request.config.init_from)
        with whole(session):
            notes = load_weights(session.model, source)
        here = prepared.job.kept.get("vocabulary.json")
        if here is not None and vocabulary_beside(source) not in (None, json.loads(here)):
            notes.insert(
                0, "its vocabulary is another: rows of the embedding stand for other characters"
            )
        for note in notes:
            notify(Note(text=f"init_from: {note}", warning=True))
    return Position()
