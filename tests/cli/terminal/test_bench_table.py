import io
from dataclasses import replace

import pytest
from rich.console import Console

from hotloop.bench.compare import Ratio
from hotloop.bench.result import Epoch, Result, RungResult
from hotloop.bench.targets import judge, parse
from hotloop.cli.terminal.bench_table import show, show_ratios, show_verdicts
from hotloop.core.agreement import Parity
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.trial import Comparison
from hotloop.recipes.building.ladder import Claim

FIGURES = {
    "it_per_s": 40.0,
    "samples_per_s": 1280.0,
    "tokens_per_s": 163_840.0,
    "targets_per_s": 163_840.0,
    "cpu_util": 0.9,
    "mfu": 0.4,
    "of_ceiling": 0.4,
    "ram": 3.0e8,
    "start_s": 2.5,
    "compile_s": 0.0,
    "epoch_s": 185.0,
}
OWN = RungResult(
    id="own",
    name="hotloop's own choice",
    state="measured",
    comparison=Comparison(verdict="FASTER", why="", ratio=0.25, interval=(0.2, 0.3), n=10),
    figures=FIGURES,
    unknown={"gpu_util": "this machine trains on its CPU"},
    parity=Parity(kept=False, why="losses differ: [2] instead of 1"),
    epoch=Epoch(estimated=12.0, measured=10.0, steps=99),
    claims=[Claim(of="before", text="5-10x tokens/s", source="a project [unmeasured]")],
    over_below=2.5,
    below="plain loop",
)
TF32 = RungResult(id="products", name="+ tf32", state="blocked", why="no [tensor] cores")
RESULT = Result(
    ladder="char-lm",
    command=["hotloop", "bench", "char-lm"],
    date="2026-11-21T12:00:00+00:00",
    hardware=Hardware(
        device="cpu",
        name="a CPU",
        measured={"fp32": Measurement(unit="FLOP/s", readings=(89e9,))},
    ),
    settings={},
    facts={},
    rows=(replace(OWN, id="before", name="plain loop", claims=()), TF32, OWN),
    judged="own",
    flops_per_token=5e6,
    busy_cores=1.5,
)


def drawn(draw, *what, width: int = 80) -> str:
    out = io.StringIO()
    draw(*what, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_it_fits_80_columns_and_says_all():
    text = drawn(show, RESULT)
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    whole = " ".join(text.split())
    assert "hotloop's own choice 4.00x (3.33-5.00) 2.50x 164k 164k 1.28k" in whole
    assert "choice 40 90.0% 40.0% 40.0% 286 MiB" in whole
    assert "choice 2.50 s 0.00 s 3:05" in whole
    assert "+ tf32: blocked: no [tensor] cores" in whole
    assert "claimed 5-10x tokens/s; here 4.00x (3.33-5.00) of before (a project [unm" in whole
    assert "an epoch of 99 steps took 10.0 s, forecast 12.0 s (+20%)" in whole
    assert "losses differ: [2] instead of 1" in whole
    assert "other processes keep 1.5 cores busy" in whole
    assert "fp32 products reach 89GFLOP/s" in whole


def test_what_is_unknown_is_no_number():
    bare = replace(OWN, figures={"tokens_per_s": 1.0})
    text = drawn(show, replace(RESULT, rows=(OWN, bare), busy_cores=None))
    assert "unknown" in text
    assert "busy" not in text


def test_an_epoch_that_failed_says_why():
    failed = replace(OWN, epoch=Epoch(estimated=1.0, measured=None, why="timeout: too long"))
    assert "an epoch for real: timeout: too long" in drawn(show, replace(RESULT, rows=(failed,)))


def test_what_stopped_it_is_said():
    assert "stopped by Ctrl-C" in drawn(show, replace(RESULT, stopped="stopped by Ctrl-C"))


def test_verdicts_are_words():
    verdicts = judge(parse("tokens_per_s>=5x it_per_s>=1"), OWN, "")
    missed, met = drawn(show_verdicts, verdicts, "own", width=200).splitlines()
    assert missed.startswith("MISSED tokens_per_s>=5x (own): tokens_per_s is 4.00x")
    assert met.startswith("met it_per_s>=1 (own)")


@pytest.mark.parametrize("width", [80, 200])
def test_two_results_stand_side_by_side(width):
    both = Ratio(id="own", name="own", a=100.0, b=150.0, factor_a=2.0, factor_b=4.0)
    only = replace(both, id="low", name="+ 16 bit", b=None, why="blocked in B")
    text = " ".join(drawn(show_ratios, [both, only], width=width).split())
    assert "own 100 150 1.50x 2.00x 4.00x 2.00x" in text
    assert "+ 16 bit: blocked in B" in text


def test_a_better_rung_than_hotloop_s_own_choice_is_said():
    lean = replace(
        OWN,
        id="lean",
        name="+ gc freeze",
        comparison=Comparison(verdict="FASTER", why="", ratio=0.1, interval=(0.09, 0.11), n=10),
    )
    out = io.StringIO()
    show(replace(RESULT, rows=(lean, OWN)), Console(file=out, width=200))
    said = "hotloop's own choice is not the best here: + gc freeze is 2.50x as fast; hotloop tune"
    assert said in out.getvalue()
    out = io.StringIO()
    show(RESULT, Console(file=out, width=200))
    assert "not the best" not in out.getvalue()
