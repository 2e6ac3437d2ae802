"""The data were not there, and the script went on with made-up ones.

Looks at: paths that were tried and not there, the script's own words, and code that draws random
    data where loading fails.
Says so when: the output says that made-up data stand in for what was not found; or code draws
    random data where a path is tested or loading fails, and the path was not there or the output
    says that made-up data are used. A note where that code was not certainly executed: it opened
    the path in vain, printed its text, or was sampled.
Stays silent when: random data are all the script ever meant to use.
Remedy: the right path, and an error in place of the fallback.
Numbers: training: other data.
Seen: examples/planted/made_up.py.
Source: two of the five projects.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation
from hotloop.rules.support.costs import site
from hotloop.rules.support.executed import was_seen
from hotloop.rules.support.idioms import last_name
from hotloop.rules.support.syntax import Module, calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["RULE"]

_SAID = re.compile(
    r"(fall(ing|s)? ?back to|using|generat\w+|creat\w+) (\w+ )?(synthetic|dummy|fake|random) "
    r"(\w+ )?(data|samples|rows|dataset|images|text|tokens)",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"not found|missing|fail|fall|could not|cannot|no such|instead", re.I)
LONG = 12  # characters of a text that is found again in what was printed
_DRAWN = ("rand", "randn", "randint", "make_classification", "make_regression")


def judge(case: Case) -> Finding | None:
    """Read the output, then the code that a missing path leads to."""
    message = next((line for line in case.process.output if _SAID.search(line)), None)
    fallbacks, missing = list(_fallbacks(case)), case.process.failed
    stands_in = message is not None and _INSTEAD.search(message)
    if not stands_in and (not fallbacks or (message is None and not missing)):
        return None
    taken = [fallback for fallback in fallbacks if _was_taken(case, fallback)]
    absent = list(dict.fromkeys(path for fallback in taken for path in fallback.absent(case)))
    missing, stand = tuple(absent) or missing, "stand" if taken else "may stand"
    return Finding(
        claim=f'the script trains on made-up data: "{message.strip()[:100]}"'
        if message is not None
        else f"{missing[0]} was not there, and random data {stand} in for it",
        severity="critical" if missing else "warn",
        known="proved" if taken else "read",
        places=[fallback.place for fallback in taken or fallbacks][:3],
        evidence={"not there": ", ".join(missing[:5])} if missing else {},
        remedies=[
            Remedy(
                text="give the path of the data, and raise where they are not found "
                "(hotloop explain cache-not-found)"
            ),
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Code that draws random data in place of missing data."""

    place: SourceLocation
    module: Module
    branch: Sequence[ast.stmt]  # the statements that draw
    tried: Sequence[ast.AST]  # what failed, where the branch handles an exception

    def absent(self, case: Case) -> Iterator[str]:
        """Yield the paths that were opened in `tried`, or in a function called there, in vain."""
        code = parse(case.sources)
        sites = [site(self.module, node) for node in self.tried]
        sites += [
            site(module, function)
            for node in self.tried
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
            for module, function in code.functions.get(last_name(call), ())
        ]
        for path, at in zip(case.process.failed, case.process.failed_at, strict=False):
            if any(lines.holds(at.file, at.line) for lines in sites):
                yield path


def _fallbacks(case: Case) -> Iterator[Fallback]:
    """Yield the branches that draw random data in place of missing data."""
    for module, node in parse(case.sources).nodes():
        branches: list[list[ast.stmt]] = []
        if isinstance(node, ast.Try):
            branches = [handler.body for handler in node.handlers]
        elif isinstance(node, ast.If) and any(calls(node.test, "exists", "is_file", "isfile")):
            branches = [node.body, node.orelse]
        for branch in branches:
            drawn = [call for statement in branch for call in calls(statement, *_DRAWN)]
            if drawn:
                tried = node.body if isinstance(node, ast.Try) else ()
                place = module.place(drawn[0])
                yield Fallback(place=place, module=module, branch=branch, tried=tried)


def _was_taken(case: Case, fallback: Fallback) -> bool:
    """Whether the branch was certainly executed: by what failed, was printed, or was sampled."""
    if any(fallback.absent(case)):
        return True
    texts = [
        node.value
        for statement in fallback.branch
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    printed = [text.strip() for text in texts if len(text.strip()) >= LONG]
    if any(text in line for text in printed for line in case.process.output):
        return True
    return any(was_seen(case, fallback.module, statement) for statement in fallback.branch)


RULE = Rule(
    title="Made-up data are used after a failed load",
    judge=judge,
    needs=(Needs.CODE,),
    kind="correctness",
    known="read",
)
