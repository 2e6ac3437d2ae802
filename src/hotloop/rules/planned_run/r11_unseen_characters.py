"""The validation part of a text holds characters that its training part lacks.

Looks at: the characters of both parts.
Says so when: before a run, the validation part holds such a character; a warning where they are
    0.1 % of it.
Stays silent when: the training part has all of them.
Remedy: text of one kind for both parts: data.validation_share.
Numbers: the run changes: it trains on other text.
Seen: tests/diagnosis/test_planned_text.py.
Source: hotloop; a character that was never seen can cost ten nats, so 0.1 % of them moves the mean
    by 0.01.
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

__all__ = ["RULE"]

UNSEEN_WARN = 0.001  # of the validation: one can cost ten nats, which moves the mean by 0.01


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Count the characters that training lacks."""
    data = planned.data
    text = data.text if data is not None else None
    if text is None or not text.unseen:
        return None
    share = text.unseen / text.valid
    return Finding(
        claim=f"{100 * share:.2g}% of the validation part ({text.unseen:,}) are characters that "
        "never stand in the training part: no model can predict them",
        severity="warn" if share >= UNSEEN_WARN else "note",
        evidence={
            "most often": ", ".join(
                f"{character!r} {times}x" for character, times in text.most_unseen.items()
            )
        },
        remedies=[Remedy(text="use text of one kind for both parts: data.validation_share")],
    )


RULE = Rule(
    title="Validation asks for characters that training lacks",
    before_run=judge,
    numerics="training",
    kind="correctness",
    known="proved",
)
