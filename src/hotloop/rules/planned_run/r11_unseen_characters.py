"""The validation part of a text holds characters that its training part lacks.

Looks at: the characters of both parts.
Says so when: before a run, the validation part holds such a character; a warning where they are
    0.1 % of it.
Stays silent when: the training part has all of them.
Remedy: text of one kind for both parts: data.validation_share.
Numbers: the run changes: it trains on other text.
Seen: tests/diagnosis/checks/test_characters.py.
Source: hotloop; a character that was never seen can cost ten nats, so 0.1 % of them moves the mean
    by 0.01.
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R11",
    name="unseen_characters",
    title="Validation asks for characters that training lacks",
    page=__doc__ or "",
    numerics="training",
    kind="correctness",
)
