"""Judges hotloop's own cache, which can be rebuilt, and measures the caches of other tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotloop.cleanup.disk_use import Item, OtherCache, Shelf, last_used, taken
from hotloop.cleanup.runs import aside, unfinished
from hotloop.core.env import compile_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hotloop.cleanup.disk_use import CleanupRequest, Kind

__all__ = ["cache_shelf", "others"]

_TOKENS = re.compile(r"[0-9a-f]{32}")  # as data.tokens names a folder


def cache_shelf(order: CleanupRequest) -> Shelf:
    """Return the shelf of hotloop's own cache; files with foreign names are not its items."""
    cache = order.environment.cache
    tokens, forecasts = cache / "tokens", cache / "forecasts"
    items = list(unfinished(tokens, order, None, locked=False))
    for path in sorted(tokens.iterdir()) if tokens.is_dir() else ():
        if _TOKENS.fullmatch(path.name):
            items.append(_cache_item(path, "tokens", order))
    items += aside(tokens, None, goes=order.broken)
    if forecasts.is_dir():
        items.append(_cache_item(forecasts, "forecasts", order))
    size = sum(item.bytes for item in items)
    return Shelf(path=cache, name=str(cache), state="cache", bytes=size, items=tuple(items))


def _cache_item(path: Path, kind: Kind, order: CleanupRequest) -> Item:
    used = last_used(path)
    days = order.unused
    goes = days is not None and used is not None and order.now() - used >= days * 86400
    if days is None:
        why = "made again when it is gone; --caches DAYS"
    else:
        why = f"{'not ' if goes else ''}used in the last {days:g} days"
    return Item(path=path, kind=kind, bytes=taken(path), goes=goes, why=why, last_used=used)


def others(order: CleanupRequest, progress: Callable[[str], None]) -> Iterator[OtherCache]:
    """Yield the caches of other tools, which are never changed, with how to shrink them."""
    hub, datasets = order.environment.hub, order.environment.datasets
    caches = [
        (hub, "Hugging Face hub", "hf cache ls, hf cache rm REPO, hf cache prune"),
        (
            datasets,
            "Hugging Face datasets",
            "delete folders in it by hand: datasets has no command",
        ),
        (compile_cache(), "torch.compile", "delete it by hand: torch makes it again"),
    ]
    for path, name, how in caches:
        if path.is_dir():
            progress(f"adding up {path}")
            size, used = taken(path), last_used(path)
            yield OtherCache(path=path, name=name, bytes=size, last_used=used, how=how)
