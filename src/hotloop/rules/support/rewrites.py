"""What rules share that speak of work which another form does faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.finding import ABSTAIN, WARN
from hotloop.rules.support.costs import costing, in_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.rewrite import Rewrite, RewriteKind
    from hotloop.core.finding import Finding

__all__ = ["in_words", "of_kind", "rewritten"]

_PLACES = 5


def of_kind(case: Case, kind: RewriteKind) -> list[Rewrite]:
    """Return the rewrites of a kind; if the other form was timed, those for which it is faster."""
    rewrites = case.ledger.rewrites if case.ledger is not None else ()
    faster = {
        place for one in case.experiments if one.name == kind and one.gain for place in one.places
    }
    return [
        one
        for one in rewrites
        if one.kind == kind and (not faster or not faster.isdisjoint(one.places))
    ]


def rewritten(case: Case, rewrites: Sequence[Rewrite], **fields: Any) -> Finding | None:
    """Return a finding on rewrites of one kind. `claim` in `fields` goes on with the share.

    Without a measured gain the finding needs a large share.
    """
    if not rewrites or case.step_time is None:
        return None
    gains = [one.gain for one in case.experiments if one.name == rewrites[0].kind and one.gain]
    # A recorded step may be slower than the others: what its operators took is a part of them all.
    of_step = sum(one.seconds for one in rewrites) / case.step_time.median
    part = min(1.0, of_step, sum(one.share for one in rewrites))
    part = max([part, *(1 - 1 / gain for gain in gains)])  # what was won was taken
    seconds = in_steps(case, part)
    claim = fields.pop("claim")
    return costing(
        case,
        seconds,
        least=ABSTAIN if gains else WARN,
        claim=f"{claim}, {case.part(seconds):.0%} of the time",
        places=list(dict.fromkeys(place for one in rewrites for place in one.places))[:_PLACES],
        evidence={"shapes": in_words(rewrites[0])},
        **fields,
    )


def in_words(rewrite: Rewrite) -> str:
    """Return the shapes of a rewrite: "64 x 51, 51 x 48 (float32), 95 times a step"."""
    if rewrite.form == "numbers":
        return f"{rewrite.in_loop * rewrite.calls:,.0f} numbers a step ({rewrite.dtypes[0]})"
    shapes = ", ".join(" x ".join(map(str, shape)) for shape in rewrite.shapes)
    return f"{shapes} ({rewrite.dtypes[0]}), {rewrite.calls:.3g} times a step"
