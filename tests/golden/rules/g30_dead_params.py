"""Golden cases of G30 dead_params."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.objects import ParameterGroup


def case(**group: int) -> object:
    optimizer = replace(
        healthy().optimizers[0],
        groups=(ParameterGroup(parameters=1000, tensors=8, fused=True, **group),),
    )
    return healthy(optimizers=(optimizer,))


POSITIVE = [case(frozen=900), case(without_gradient=60)]
NEGATIVE = [case(frozen=10), case()]
