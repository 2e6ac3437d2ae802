"""Golden cases of H1 launch_bound."""

from dataclasses import replace

from tests.golden.cases import healthy, on_card, wall

starved = replace(healthy().steps, starved=0.95, main_cpu=0.99)
POSITIVE = [
    on_card(steps=starved),
    on_card(steps=starved, readings={"gpu_utilisation": (0.4, 0.5, 0.5)}),
]
NEGATIVE = [
    on_card(steps=replace(starved, starved=0.1)),  # the card is behind
    on_card(steps=replace(starved, main_cpu=0.3)),  # the host waits for something else
    on_card(steps=starved, wall=wall(data_wait=5.0)),  # for data
    on_card(steps=starved, readings={"gpu_utilisation": (0.98, 0.99)}),  # 1 % is idle
]
