"""Golden cases of D15 pin_off."""

from dataclasses import replace

from tests.golden.cases import on_card, wall

LOADER = on_card().loaders[0]
COPIES = wall(host_to_device=1.0)
POSITIVE = [on_card(wall=COPIES)]
NEGATIVE = [
    on_card(wall=COPIES, loaders=(replace(LOADER, pin_memory=True),)),
    on_card(wall=COPIES, loaders=(replace(LOADER, pinned=True),)),
    on_card(wall=wall(host_to_device=0.1)),
]
