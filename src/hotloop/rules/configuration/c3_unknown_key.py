"""A key nobody reads is spelt almost like one that the code reads and no file has.

Looks at: keys that nobody reads (C1), and what the code asks the same section for.
Says so when: the code asks for a key that no file has and takes a default instead, and four fifths
    of the letters agree, in order. A note where the line that asks was not certainly executed.
Stays silent when: another program of the project has the key's name, or C1 would be silent.
Remedy: spell it as the code does.
Numbers: training: the setting is in effect from then on.
Seen: examples/planted/asked_in_vain.py.
Source: one of the five projects; difflib's ratio, cutoff 0.8 ours.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.config_files import near, unread
from hotloop.rules.support.executed import was_executed

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for a similar key that the code reads."""
    candidates = [(setting, near(case, setting)) for setting in unread(case)]
    misspelt = [(setting, meant) for setting, meant in candidates if meant]
    if not misspelt:
        return None
    setting, meant = misspelt[0]
    asked = any(was_executed(case, module, node) for node, module in meant.asked.items())
    return Finding(
        claim=f'nobody reads "{setting.key}"; the code reads "{meant.name}", which takes its '
        "default",
        severity="warn",
        known="proved" if asked else "read",
        places=[setting.place for setting, _ in misspelt if setting.place],
        evidence={setting.key: f"read: {meant.name}" for setting, meant in misspelt},
        remedies=[Remedy(text=f'write "{meant.name}" in place of "{setting.name}"')],
    )


RULE = Rule(
    title="A configuration key is misspelt",
    judge=judge,
    needs=(Needs.CONFIG, Needs.CODE),
    kind="correctness",
    known="read",
)
