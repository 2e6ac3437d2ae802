"""Suggested changes are timed beside the plan, and the sentence says what that showed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use
from hotloop.core.trial import PAIRS, Trial
from hotloop.diagnosis.diff import Suggested, suggest
from hotloop.tuning.lane import Entry, RaceLength
from hotloop.tuning.timed_edits import compared

SCRIPT = """\
import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.ones(4000, 4)), batch_size=2):
    net(x).mean().backward()
    optimizer.step()
    time.sleep(0.001)  # or more
"""
FUSED, WORKERS = Use.of("fused-adamw"), Use.of("loader-workers", count=1)


def look() -> Hardware:
    return Hardware(device="cpu", name="CPU", cores=2)


def not_asked() -> Hardware:
    raise AssertionError("nothing was to be timed")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def plan_of(*uses: Use) -> Plan:
    return Plan(micro_batch=1, techniques=uses)


def changes(script: Path, plan: Plan) -> Suggested:
    return replace(suggest(script, plan), least=2000)


def race_of(ours: float, plans: float, **effects: str):
    """Return a race in which a step takes so many seconds; `effects` are those of the plan.

    It has all pairs of processes, which keep their memory.
    """

    def race(entries: Sequence[Entry], pace: RaceLength) -> list[Trial]:
        said = {id.replace("_", "-"): (word, "so it is") for id, word in effects.items()}
        assert [entry.plan.techniques == () for entry in entries] == [False, True]
        assert [entry.keeps_memory for entry in entries] == [True, True]
        assert pace.total == 1999, "the script must not come to its end"
        times = ((plans, said), (ours, {}))
        return [
            Trial(
                plan=entry.plan,
                rounds=dict.fromkeys(range(8 * PAIRS), seconds),
                pairs=tuple(range(0, 8 * PAIRS, 8)),
                effects=effect,
                keeps_memory=entry.keeps_memory,
            )
            for entry, (seconds, effect) in zip(entries, times, strict=True)
        ]

    return race


def test_changes_that_are_as_fast_are_said_to_be_with_both_times(script: Path) -> None:
    plan = plan_of(FUSED)
    made = replace(suggest(script, plan), least=2000, step=0.001)
    found, said = compared(script, [], plan, made, look=look, race=race_of(0.041, 0.0405))
    assert found == made
    assert said == (
        "the diff applies, runs and takes 41 ms a step; the plan takes 40.5 ms (SAME: no more than "
        "3% apart (1.01-1.01))"
    )


def test_what_the_plan_refuses_is_left_out_where_it_makes_the_script_slower(script: Path) -> None:
    plan = plan_of(FUSED, WORKERS)
    races = iter([
        race_of(0.2, 0.04, loader_workers="refused", fused_adamw="in effect"),
        race_of(0.04, 0.04, loader_workers="refused", fused_adamw="in effect"),
    ])  # fmt: skip
    found, said = compared(
        script, [], plan, changes(script, plan), look=look, race=lambda *how: next(races)(*how)
    )
    assert found.uses == (FUSED,)
    assert "num_workers" not in found.diff
    assert found.notes == (
        "loader-workers: left out, for hotloop run does not put it in here (refused: so it is), "
        "and with the change a step takes 5.00 times as long (5.00-5.00)",
    )
    assert said.startswith("the diff applies, runs and takes 40 ms a step; ")
    assert said.endswith("(SAME: no more than 3% apart (1.00-1.00))")


def test_where_only_what_the_plan_refuses_is_left_nothing_changes(script: Path) -> None:
    plan = plan_of(WORKERS)
    race = race_of(0.2, 0.04, loader_workers="refused")
    found, said = compared(script, [], plan, changes(script, plan), look=look, race=race)
    assert not found.changes([])
    assert said == "nothing changes, for the reasons above"


def test_what_is_not_slower_stays_though_the_plan_refuses_it(script: Path) -> None:
    plan = plan_of(WORKERS)
    race = race_of(0.04, 0.04, loader_workers="refused")
    found, said = compared(script, [], plan, changes(script, plan), look=look, race=race)
    assert found.uses == (WORKERS,)
    assert said.endswith("; under the plan loader-workers is refused: so it is")


def test_what_is_slower_and_in_effect_under_the_plan_stays_and_is_told(script: Path) -> None:
    plan = plan_of(FUSED)
    race = race_of(0.2, 0.04, fused_adamw="in effect")
    found, said = compared(script, [], plan, changes(script, plan), look=look, race=race)
    assert found.uses == (FUSED,)
    assert "(SLOWER: a step takes 5.00 times as long" in said


@pytest.mark.slow
def test_real_processes_are_timed_by_turns(script: Path) -> None:
    plan = plan_of(FUSED)
    said = compared(script, [], plan, changes(script, plan), look=look)[1]
    shown = r"the diff applies, runs and takes [\d.]+ ms a step; the plan takes [\d.]+ ms \((.+): "
    assert re.match(shown, said), said


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"least": 27}, "27 steps are sure to be made, and 28 are needed"),
        (
            {"least": None},
            "it is not known how many steps the script makes, and it must not come to its end "
            "here, where it writes its results",
        ),
        ({"least": 900, "step": 60.0}, "a step takes 1:00, and a comparison 56:00"),
    ],
)
def test_a_script_that_cannot_be_timed_is_not(script: Path, facts: dict, why: str) -> None:
    plan = plan_of(FUSED)
    made = replace(suggest(script, plan), **facts)
    said = compared(script, [], plan, made, look=not_asked)[1]
    start = "the diff applies and runs; its time was not compared with the plan's: "
    assert said == start + why


def test_a_changed_command_line_is_named_with_and_without_a_diff(script: Path) -> None:
    plan = plan_of(FUSED)
    made = replace(suggest(script, plan, ["--fast"]), least=1)
    said = compared(script, [], plan, made, look=not_asked)[1]
    assert said.startswith("the diff applies and runs with the changed command line; ")
    said = compared(script, [], plan, replace(made, files={}), look=not_asked)[1]
    assert said.startswith("the changed command line runs; ")


def test_nothing_is_run_where_nothing_changes(script: Path) -> None:
    plan = plan_of(Use.of("sample-cache"))
    said = compared(script, [], plan, suggest(script, plan), look=not_asked)[1]
    assert said == "nothing changes, for the reasons above"
