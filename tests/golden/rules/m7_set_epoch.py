"""Golden cases of M7 set_epoch."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts

two = ProcessFacts(world=2, backend="gloo")
loader = replace(healthy().loaders[0], sampler="DistributedSampler", shuffle=True, set_epoch=0)
POSITIVE = [healthy(process=two, loaders=(loader,))]
NEGATIVE = [
    healthy(process=two, loaders=(replace(loader, set_epoch=2),)),
    healthy(process=two, loaders=(replace(loader, iterations=1),)),
    healthy(process=two, loaders=(replace(loader, shuffle=False),)),
    healthy(process=two),
]
