"""A key stands twice in one section of a configuration file; the last one counts, without a word.

Looks at: the YAML and JSON files that the project's own code loads, parsed strictly.
Says so when: a key stands twice: critical, but a note where both have the same value.
Stays silent when: the file is not valid, is TOML, which refuses such keys itself, or is a
    library's, a model's or one of many that one line opens.
Remedy: take one out.
Numbers: training, where the wrong one counts.
Seen: examples/slow/config_keys.
Source: two of the five projects; YAML 1.2.2, 3.2.1.1 (keys are unique); RFC 8259, 4.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.config_files import own, settings

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """List the keys that occur twice."""
    twice = [s for config in own(case) for s in settings(config) if s.first and s.name != "<<"]
    differing = [s for s in twice if s.value is None or s.value != s.first_value]
    if not twice:
        return None
    worst = (differing or twice)[0]
    assert worst.first is not None
    assert worst.place is not None
    last = "the last section" if worst.value is None else f'"{worst.value}"'
    return Finding(
        claim=f'"{worst.key}" stands twice, in lines {worst.first.line} and {worst.place.line}; '
        f"{last} counts",
        severity="critical" if differing else "note",
        places=[place for s in differing or twice for place in (s.first, s.place) if place],
        evidence={
            s.key: f"{s.first_value or 'a section'}, then {s.value or 'a section'}" for s in twice
        },
        remedies=[Remedy(text=f'take "{worst.name}" out of line {worst.first.line}')],
    )


RULE = Rule(
    title="A configuration key stands twice",
    judge=judge,
    needs=(Needs.CONFIG,),
    kind="correctness",
    known="proved",
)
