"""Asks one rule about a case, as the doctor does."""

from hotloop.core.case.case import Case
from hotloop.core.finding import Finding
from hotloop.rules import ALL

__all__ = ["finding", "findings"]


def findings(name: str, case: Case) -> list[Finding]:
    """Return what a rule, named by id or label, has to say."""
    (rule,) = (rule for rule in ALL if name in (rule.id, rule.label))
    return rule.findings(case)


def finding(name: str, case: Case, about: str = "") -> Finding | None:
    """Return its finding whose claim has the words `about`, if any; what would not pay is none."""
    said = [
        found
        for found in findings(name, case)
        if about in found.claim and found.kind != "not worth it"
    ]
    assert len(said) <= 1, said
    return said[0] if said else None
