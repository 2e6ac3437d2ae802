"""Gives a run its tokens: those of a folder where they are what is wanted, else made on the fly."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

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

__all__ = ["Ready", "Use", "own", "ready"]

Use = Literal["auto", "only"]  # what is done about a folder that is not the right one


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Tokens that are just what was wanted."""

    store: Store
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # that it took to make them now


def ready(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    use: Use = "auto",
    tell: Callable[[TokenizeProgress], None] = lambda _: None,
) -> Ready:
    """Return the tokens of the folder `order.out` if they are those of the sources and the order.

    If they are not, or there are none, "auto" makes them in `cache`, once, and says why and what
    that cost; the folder is left as it is. Raises DataError where rows cannot be used and, for
    "only", where the folder is not the right one: it names each difference.
    """
    wants = wanted(sources, order, tell=tell)
    try:
        tell(TokenizeProgress(what="checksums of the tokens"))
        return Ready(store=open_store(order.out, wanted=wants.identity, sums=True))
    except DataError as error:
        if use == "only":
            raise
        why = str(error)
    began = time.perf_counter()
    made, store = own(sources, order, cache=cache, found=wants, tell=tell)
    seconds = time.perf_counter() - began
    cost = f"which took {duration(seconds)}" if made.is_new else "which an earlier run did"
    note = f"{why}. Tokenised on the fly, {cost}: {made.folder}"
    return Ready(store=store, notes=(note, *made.about["notes"]), seconds=seconds)


def own(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    found: TokenizeSpec | None = None,
    tell: Callable[[TokenizeProgress], None] = lambda _: None,
) -> tuple[Made, Store]:
    """Return the tokens that `cache`, hotloop's own folder of them, has; made if need be.

    `found` as for `tokenise`. Raises DataError where rows cannot be used.
    """
    wants = found or wanted(sources, order, tell=tell)
    folder = cache / _name(wants.identity)
    broken = _broken(folder, tell) if folder.exists() else []
    if broken:
        remove_folder(folder)
    made = tokenise(sources, replace(order, out=folder), found=wants, tell=tell)
    if broken:
        note = f"cached tokens were damaged and are made again: {'; '.join(broken)}"
        made = replace(made, about={**made.about, "notes": [note, *made.about["notes"]]})
    return made, open_store(made.folder)


def _name(identity: Mapping[str, Any]) -> str:
    """Return the name of a folder in the cache: where the files lie, and when they were written,
    does not decide what their tokens are."""
    made = {key: value for key, value in identity.items() if key not in ("data", "tokenizer_name")}
    return digest(json.dumps([made, contents(identity)], sort_keys=True))


def _broken(folder: Path, tell: Callable[[TokenizeProgress], None]) -> list[str]:
    """Return what is damaged in a folder of tokens: a run reads all of its bytes once."""
    tell(TokenizeProgress(what="checksums of the tokens"))
    return check_folder(folder)
