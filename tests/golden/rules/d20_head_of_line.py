"""Golden cases of D20 head_of_line."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(healthy().loaders[0], workers=2, waits=((0.0001,) * 49 + (0.1,)) * 20)
UNEVEN = ((0.0001,) * 44 + (0.0008,) * 5 + (0.1,)) * 20  # but all short against a step of 10 ms
POSITIVE = [
    healthy(wall=wall(data_wait=2.1), loaders=(LOADER,)),
    healthy(wall=wall(data_wait=2.1), loaders=(replace(LOADER, waits=UNEVEN),)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=2.1), loaders=(replace(LOADER, in_order=False),)),
    healthy(wall=wall(data_wait=2.1), loaders=(replace(LOADER, workers=1),)),
    healthy(  # D19's: late ones are common
        wall=wall(data_wait=2.1),
        loaders=(replace(LOADER, waits=((0.0001,) * 9 + (0.02,)) * 100),),
    ),
    healthy(  # nothing is ready behind them
        wall=wall(data_wait=2.1),
        loaders=(replace(LOADER, waits=((0.0001,) * 98 + (0.1, 0.1)) * 10),),
    ),
]
