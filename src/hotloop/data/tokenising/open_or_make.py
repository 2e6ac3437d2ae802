"""Provide a run's tokens: those of a folder if they match the request, else new ones."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.storage.files import remove_folder
from hotloop.core.storage.manifest import check_folder
from hotloop.core.units import duration
from hotloop.data.tokenising.plan import wanted
from hotloop.data.tokenising.progress import TokenizeProgress
from hotloop.data.tokenising.token_store import contents, open_store
from hotloop.data.tokenising.tokenize import tokenise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.plan import TokenizeRequest, TokenizeSpec
    from hotloop.data.tokenising.token_store import Store
    from hotloop.data.tokenising.tokenize import Made

__all__ = ["Ready", "own", "ready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Tokens that match the request exactly."""

    store: Store
    notes: tuple[str, ...] = ()


def ready(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> Ready:
    """Return the tokens of the folder `order.out` if they are those of the sources and the order.

    Otherwise they are made in `cache`, once, with a note that says why and at what cost; the folder
    is not changed. Raises DataError if rows cannot be used.
    """
    spec = wanted(sources, order, notify=notify)
    try:
        notify(TokenizeProgress(what="checksums of the tokens"))
        return Ready(store=open_store(order.out, wanted=spec.identity, sums=True))
    except DataError as error:
        why = str(error)
    began = time.perf_counter()
    made, store = own(sources, order, cache=cache, spec=spec, notify=notify)
    cost = (
        f"which took {duration(time.perf_counter() - began)}"
        if made.is_new
        else "which an earlier run did"
    )
    note = f"{why}. Tokenised on the fly, {cost}: {made.folder}"
    return Ready(store=store, notes=(note, *made.about["notes"]))


def own(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    spec: TokenizeSpec | None = None,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> tuple[Made, Store]:
    """Return the tokens in `cache`, hotloop's own folder of tokens; make them if they are missing.

    `spec` as for `tokenise`. Raises DataError if rows cannot be used.
    """
    spec = spec or wanted(sources, order, notify=notify)
    folder = cache / _name(spec.identity)
    broken = _broken(folder, notify) if folder.exists() else []
    if broken:
        remove_folder(folder)
    made = tokenise(sources, replace(order, out=folder), spec=spec, notify=notify)
    if broken:
        note = f"cached tokens were damaged and are made again: {'; '.join(broken)}"
        made = replace(made, about={**made.about, "notes": [note, *made.about["notes"]]})
    return made, open_store(made.folder)


def _name(identity: Mapping[str, Any]) -> str:
    """Return the name of a folder in the cache, by contents and settings.

    The place and the time of the files do not decide what their tokens are.
    """
    settings = {
        key: value for key, value in identity.items() if key not in ("data", "tokenizer_name")
    }
    return digest(json.dumps([settings, contents(identity)], sort_keys=True))


def _broken(folder: Path, notify: Callable[[TokenizeProgress], None]) -> list[str]:
    """Return the damage of a token folder; reads all of its bytes."""
    notify(TokenizeProgress(what="checksums of the tokens"))
    return check_folder(folder)
