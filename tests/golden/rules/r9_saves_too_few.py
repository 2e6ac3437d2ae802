"""Golden cases of R9 saves_too_few."""

from tests.golden.cases import PLANNED, planned

HOURS = {"rows": {**PLANNED.time.rows, "step": 36_000.0}}
POSITIVE = [
    planned(time=HOURS, settings={"save_every": 7200.0}),
    planned(time=HOURS, settings={"save_every": 1e6}),
    planned(time=HOURS, settings={"save_every": 7200.0, "save_every_steps": 100}),
]
NEGATIVE = [
    planned(settings={"save_every": 7200.0}),  # a run of 100 s
    planned(time=HOURS),
    planned(time=HOURS, settings={"save_every": 7200.0, "save_every_steps": 30}),
    planned(time=None),
]
