"""Holds what was kept of the batches of one loader, or of hand-made ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation
    from hotloop.observe.probes.rows import Row

__all__ = ["LoaderSamples"]


@dataclass(slots=True)
class LoaderSamples:
    """What was kept of the batches of one loader, or of hand-made ones."""

    place: SourceLocation | None = None
    epoch: int = 0
    count: int = 0
    in_epoch: int = 0
    numbers: int = 0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    bytes: list[int] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    pinned: bool | None = None
    main: str | None = None  # name of the main input
    label: str | None = None
    prompt: str | None = None  # name of the prompts' lengths, where prompts are labels as well
    prompts: float | None = None  # share of the labels that are prompts
    varieties: set[tuple[int, ...]] = field(default_factory=set)
    tokens: list[Any] = field(default_factory=list)  # [B, T] integers of each batch
    masks: list[Any] = field(default_factory=list)  # real tokens of each row, according to a mask
    labels: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)  # [B, T] labels that are rows of tokens
    sizes: list[int] = field(default_factory=list)  # rows of each batch
    names: tuple[str, ...] = ()  # of the hashed fields, that of the main input first
    rows: dict[int, list[Row | None]] = field(default_factory=lambda: defaultdict(list))  # by epoch
    hashed: int = 0
    started: dict[int, list[int]] = field(default_factory=dict)  # epoch -> hashes of first batch
    data: int = 0  # id() of the data set
    decoded: str | None = None
