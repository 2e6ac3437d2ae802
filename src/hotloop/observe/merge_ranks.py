"""Merges the cases of a script's processes into one: that of the process that trained.

If several ranks trained, it gets the figures of all of them. Each process writes its case into a
folder; one of the processes, or their parent, reads them there.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.case.case import Case
from hotloop.core.errors import DataError
from hotloop.core.storage.files import make_folder, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["gathered", "leave", "wait_for"]

_PATIENCE = 30.0  # seconds for which a rank waits for the others' cases


def leave(case: Case, folder: Path) -> None:
    """Write the case of this process into `folder`. Raises WriteError."""
    make_folder(folder)
    write_json(folder / f"case-{case.process.rank}-{os.getpid()}.json", case.to_json())


def wait_for(ranks: Iterable[int], folder: Path, *, patience: float = _PATIENCE) -> None:
    """Wait until these ranks have written their cases, at most `patience` seconds.

    Ranks stop after the same step, so they finish at about the same time.
    """
    until = time.monotonic() + patience
    while time.monotonic() < until and any(not _cases(folder, rank) for rank in ranks):
        time.sleep(0.05)


def gathered(here: Case, folder: Path) -> tuple[Case, bool]:
    """Return the case of the process that trained, with the figures of all ranks.

    The bool says whether that process is this one, whose case is `here`.
    """
    cases = [here]
    for path in _cases(folder):
        try:
            cases.append(Case.from_json(read_json(path)))
        except DataError as error:
            unread = f"a child process: {error}"
            here = cases[0] = replace(here, not_checked=(*here.not_checked, unread))
    busiest = max(cases, key=lambda case: case.steps.count)  # of equal ones the first, rank 0
    together = _with_all_ranks(busiest, cases) if busiest.process.ranks else busiest
    return together, busiest is here


def _cases(folder: Path, rank: int | None = None) -> list[Path]:
    return sorted(folder.glob(f"case-{'*' if rank is None else rank}-*.json"))


def _with_all_ranks(case: Case, cases: Sequence[Case]) -> Case:
    """Return a rank's case with the figures of all ranks in their order."""
    in_group = sorted((c for c in cases if c.process.ranks), key=lambda c: c.steps.count)
    by_rank = {rank_case.process.rank: rank_case for rank_case in in_group}
    order = [by_rank[rank].process.ranks for rank in sorted(by_rank)]  # of each busiest process
    names = [name for name in case.process.ranks if all(name in ranks for ranks in order)]
    process = replace(case.process, ranks={n: tuple(ranks[n][0] for ranks in order) for n in names})
    missing = sorted(set(range(case.process.world)) - set(by_rank))
    if not missing:
        return replace(case, process=replace(process, ranked=()))
    message = f"process {', '.join(map(str, missing))} of the group: nothing was left by it"
    process = replace(process, ranked=tuple(sorted(by_rank)))
    return replace(case, process=process, not_checked=(*case.not_checked, message))
