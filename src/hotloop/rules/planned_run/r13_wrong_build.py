"""The installed torch was built without kernels for this card.

Looks at: the card's compute capability, and the architectures that torch was built for.
Says so when: before a run, none of them runs on the card.
Stays silent when: one does, or the card is not known.
Remedy: install a build of torch for this card.
Numbers: nothing by itself.
Seen: tests/diagnosis/checks/test_machine.py, on a made-up card; not yet seen on a card.
Source: https://pytorch.org/get-started/locally/ (2026-11)
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R13",
    name="wrong_build",
    title="torch has no kernels for this card",
    page=__doc__ or "",
    kind="planning",
)
