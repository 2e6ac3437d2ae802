"""The data were not there, and the script went on with made-up ones.

Looks at: paths that were tried and not there, the script's own words, and code that draws random
    data where loading fails.
Says so when: the output says that made-up data stand in for what was not found; or code draws
    random data where a path is tested or loading fails, and the path was not there or the output
    says that made-up data are used.
Stays silent when: random data are all the script ever meant to use.
Remedy: the right path, and an error in place of the fallback.
Numbers: training: other data.
Seen: examples/planted/made_up.py.
Source: two of the five projects.
"""

import ast
import re

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation
from hotloop.rules.support.syntax import calls, parse

__all__ = ["RULE"]

_SAID = re.compile(
    r"(fall(ing|s)? ?back to|using|generat\w+|creat\w+) (\w+ )?(synthetic|dummy|fake|random) "
    r"(\w+ )?(data|samples|rows|dataset|images|text|tokens)",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"not found|missing|fail|fall|could not|cannot|no such|instead", re.I)
_DRAWN = ("rand", "randn", "randint", "make_classification", "make_regression")


def judge(case: Case) -> Finding | None:
    """Read the output, then the code that a missing path leads to."""
    message = next((line for line in case.process.output if _SAID.search(line)), None)
    places = _fallbacks(case)
    missing = case.process.failed
    stands_in = message is not None and _INSTEAD.search(message)
    if not stands_in and (not places or (message is None and not missing)):
        return None
    return Finding(
        claim=f'the script trains on made-up data: "{message.strip()[:100]}"'
        if message is not None
        else f"{missing[0]} was not there, and random data stand in for it",
        severity="critical" if missing else "warn",
        places=places[:3],
        evidence={"not there": ", ".join(missing[:5])} if missing else {},
        remedies=[
            Remedy(
                text="give the path of the data, and raise where they are not found "
                "(hotloop explain cache-not-found)"
            ),
        ],
    )


def _fallbacks(case: Case) -> list[SourceLocation]:
    """Return the places that draw random data in place of missing data."""
    places = []
    for module, node in parse(case.sources).nodes():
        if isinstance(node, ast.ExceptHandler):
            statements: list[ast.stmt] = node.body
        elif isinstance(node, ast.If) and any(calls(node.test, "exists", "is_file", "isfile")):
            statements = [*node.body, *node.orelse]
        else:
            continue
        random_calls = [call for statement in statements for call in calls(statement, *_DRAWN)]
        places += [module.place(call) for call in random_calls[:1]]
    return places


RULE = Rule(
    title="Made-up data are used after a failed load",
    judge=judge,
    needs=(Needs.CODE,),
    kind="correctness",
)
