"""Several backward passes of a step go through one and the same graph.

Looks at: `backward(retain_graph=True)` in the loops that train, the backward passes of a step, and
    the time they take.
Says so when: a step makes three such passes or more, and what could be left out is 10 % of the
    time. A note where the passes of sampled steps were not seen to share a graph.
Stays silent when: a step makes one or two (two losses of a GAN), or nothing keeps the graph.
Remedy: add the losses up and call backward() once.
Numbers: the same sum of gradients, added in another order: within rounding.
Seen: written after examples/blind2/pendulum_rollout.
Source: hotloop: n passes through one graph against one: 1 - 1 / n at most. Where each pass adds a
    part to it (a rollout), n (n + 1) / 2 parts against n: 1 - 2 / (n + 1).
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.syntax import calls, is_constant, keyword, parse

__all__ = ["RULE"]

SHARED = 0.5  # of the further passes of a step
FEWEST, LEAST = 3, 0.10  # backward passes of a step; share of the time


def judge(case: Case) -> Finding | None:
    """Count the passes of a step that keep their graph."""
    passes, places = case.steps.backwards or 1.0, _graph_keeping_calls(case)
    if passes < FEWEST or not places:
        return None
    left_out = 1 - 1 / passes
    return costing(
        case,
        case.row("backward") * left_out,
        least=LEAST,
        known="measured" if (case.steps.shared_graph or 0.0) >= SHARED else "read",
        claim=f"{passes:.0f} backward passes a step keep the graph, and each goes through what "
        "those before it went through",
        places=places[:3],
        evidence={"backward": f"{case.row('backward'):.1f} s of {case.seconds:.1f} s"},
        remedies=[code_edit("add the losses up and call backward() once, without retain_graph")],
    )


def _graph_keeping_calls(case: Case) -> list[SourceLocation]:
    """Return the backward calls of training loops that keep the graph."""
    places: dict[SourceLocation, None] = {}
    for loop in parse(case.sources).loops:
        for call in calls(loop.nodes(), "backward"):
            if is_constant(keyword(call, "retain_graph"), True):
                places[loop.module.place(call)] = None
    return list(places)


RULE = Rule(
    title="Backward passes that go through the same graph again",
    judge=judge,
    needs=(Needs.STEPS, Needs.CODE),
    weight=2,
    numerics="rounding",
    known="read",
    experiment="repeated",
)
