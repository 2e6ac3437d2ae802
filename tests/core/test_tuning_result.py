import json
from dataclasses import replace

import pytest

from hotloop.core.agreement import Parity
from hotloop.core.errors import DataError, PlanError
from hotloop.core.finding import SourceLocation
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.trial import Comparison, Trial
from hotloop.core.tuning_result import (
    SCHEMA,
    Edit,
    FixedCost,
    Tuned,
    TuneRow,
    WholeRun,
    pays_back,
)

BASE = Plan(micro_batch=1)
FAST = BASE.plus("fused-adamw").plus("threads", count=2)
FASTER = Comparison(verdict="FASTER", why="half the time", ratio=0.5, interval=(0.4, 0.6), n=16)


def trial(step: float, *, started: float = 2.0, warmed: float = 0.0, plan=BASE) -> Trial:
    rounds = dict.fromkeys(range(8), step)
    return Trial(plan=plan, rounds=rounds, steps=80, started=started, warmed=warmed, peak_bytes=9)


TRIED = TuneRow.of(
    trial(0.05, plan=FAST), "fused-adamw", "kept", "faster", comparison=FASTER,
    parity=Parity(kept=True, why="8 losses equal bit for bit"), pays_back=40, seconds=9.5,
)  # fmt: skip
PROOF = replace(TRIED, decision="proved", why="half the time; equal losses")
FOUND = Tuned(
    target=("train.py", "--size", "2"),
    where={"torch": "2.13.0"},
    baseline=BASE,
    plan=FAST,
    rows=(TuneRow.of(trial(0.1), "as it is", "baseline", "two runs"), TRIED,
          TuneRow(name="tf32", decision="refused", why="no GPU")),
    proof=PROOF,
    edits=(Edit(rule="H2", claim="it waits", share=0.2,
                places=(SourceLocation(file="train.py", line=7),),
                remedy="read it less often"),),
    costs=(FixedCost(what="start", before=2.0, after=14.0, note="imports"),
           FixedCost(what="a save", before=0.5)),
    seconds=61.0, phases={"the doctor": 20.0, "techniques": 40.6, "the proof": 0.4},
    notes=("the doctor saw nothing",),
)  # fmt: skip


def test_a_row_has_what_its_trial_measured():
    assert TRIED.step_time == Measurement(unit="s", readings=(0.05,) * 8)
    assert (TRIED.plan, TRIED.steps, TRIED.peak_bytes) == (FAST, 80, 9)
    assert TRIED.started + TRIED.warm_up == 2.0


def test_it_is_read_back_from_json_as_it_was():
    raw = json.loads(json.dumps(FOUND.to_json()))
    assert raw["schema"] == SCHEMA
    assert Tuned.from_json(raw) == FOUND


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"schema": 2}, DataError, "the trials have schema 2; this version of hotloop reads 1"),
        ({"rows": [{"name": "x", "decision": "won", "why": ""}]}, DataError, "decision: expected"),
        (
            {"plan": {"schema": 1}},
            PlanError,
            "tuned.plan's micro_batch, accumulation and ranks must be",
        ),
        ({"plan": 3}, PlanError, "tuned.plan must be an object, not 3"),
        ({"row": []}, DataError, "did you mean rows"),
    ],
)
def test_what_is_damaged_is_refused_with_its_place(change, error, said):
    with pytest.raises(error, match=said):
        Tuned.from_json({**FOUND.to_json(), **change})


def test_the_result_in_a_sentence():
    assert FOUND.is_proved
    assert FOUND.said == ("2.00x (1.67-2.50) as fast as the baseline; half the time; equal losses")


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (
            WholeRun(steps=880, before=(9.0, 11.0), after=(4.0, 4.0)),
            "2.50x the whole run of 880 steps (4.00 s instead of 10.0 s, measured, n 2)",
        ),
        (
            WholeRun(steps=None, before=(9.0,), after=(10.0,), is_measured=False),
            "0.90x the whole run (10.0 s instead of 9.00 s, estimated)",
        ),
    ],
)
def test_the_whole_run_stands_in_the_sentence(whole, said):
    found = replace(FOUND, whole=whole)
    assert found.said == f"2.00x (1.67-2.50) a step, {said}; half the time; equal losses"
    assert Tuned.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"proof": None}, "a faster plan was found but not proved against the baseline"),
        ({"proof": None, "plan": BASE}, "nothing that was tried is worth it"),
        (
            {"proof": replace(PROOF, decision="dropped", why="the same"), "plan": BASE},
            "nothing that was tried is worth it: the same",
        ),
        (
            {
                "proof": replace(PROOF, name="threads", decision="cannot be told", why="noise"),
                "plan": BASE,
            },
            "it is not known whether threads is faster: noise",
        ),
        (
            {
                "rows": (replace(TRIED, name="threads", decision="cannot be told"), TRIED),
                "proof": None,
                "plan": BASE,
            },
            "nothing was shown to be faster; the trials are too noisy to decide on threads",
        ),
        (
            {"rows": FOUND.rows[:1], "proof": None, "plan": BASE, "stopped": "stopped by Ctrl-C"},
            "nothing was tried: stopped by Ctrl-C",
        ),
        ({"rows": (), "proof": None, "plan": BASE}, "nothing was tried"),
        (
            {
                "rows": (TuneRow(name="tf32", decision="refused", why="no GPU"),),
                "proof": None,
                "plan": BASE,
            },
            "nothing is worth it: no technique has an effect here",
        ),
    ],
)
def test_a_result_without_a_proof_claims_nothing(changes, said):
    found = replace(FOUND, **changes)
    assert not found.is_proved
    assert found.said == said


def test_what_is_paid_once_is_earned_back_after_so_many_steps():
    base = trial(0.1)
    assert pays_back(trial(0.05, started=4.0), base) == 40
    assert pays_back(trial(0.05, started=1.0), base) == 0, "it starts faster, too"


@pytest.mark.parametrize(
    "slow", [trial(0.1), trial(0.2), Trial(plan=BASE), trial(0.1, warmed=None)]
)
def test_what_saves_nothing_or_is_unknown_never_pays_back(slow):
    assert pays_back(slow, trial(0.1)) is None


def test_a_notebook_shows_a_table_and_print_the_same_in_lines():
    refused = TuneRow(name="compile <b>", decision="refused", why="no compiler & no time")
    found = replace(FOUND, rows=(*FOUND.rows, refused), notes=("other programs were busy",))
    shown = found._repr_html_()
    assert shown.startswith(f"<p><strong>{found.said}</strong></p><p>other programs were busy</p>")
    assert shown.count("<tr>") == 1 + len(FOUND.rows) + 1 + 1  # titles, trials, proof, refused
    assert "<td>2.00x (1.67-2.50)</td>" in shown
    assert "compile &lt;b&gt;" in shown
    assert "no compiler &amp; no time" in shown
    lines = str(found).splitlines()
    assert lines[0] == found.said
    assert len(lines) == 1 + len(FOUND.rows) + 1 + 1
    assert lines[-1] == "  compile <b>; refused; no compiler & no time"
