"""The learning rate of a planned run is far from what models of its size usually take.

Looks at: training.learning_rate and the number of parameters of a model that is trained from
    scratch.
Says so when: before a run, the rate is ten times above or below a rule of thumb for Adam.
Stays silent when: the rate is within that range, or the run starts from trained weights.
Remedy: the rate of the rule of thumb, unless the rate was tuned.
Numbers: the run changes: another learning rate.
Seen: tests/diagnosis/checks/test_settings.py.
Source: Kaplan et al., "Scaling Laws for Neural Language Models", arXiv 2001.08361, 2020, appendix
    D.6; the factor 10 is hotloop's.
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R1",
    name="learning_rate_off",
    title="The learning rate is far from the usual",
    page=__doc__ or "",
    numerics="training",
    kind="planning",
)
