from dataclasses import replace

from hotloop.bench.page import page
from hotloop.bench.result import Epoch
from hotloop.bench.targets import judge, parse


def test_it_shows_rungs_claims_targets_and_what_is_unknown(result):
    verdicts = judge(parse("tokens_per_s>=3x gpu_util>=0.6"), result.row("own"), "")
    text = page(result, verdicts)
    assert "5.00x (5.00-5.00)" in text
    assert "5-10x tokens/s" in text
    assert "this machine trains on its CPU" in text
    assert "missed" in text
    assert "would be emulated" in text, "why a rung is blocked"
    assert "No epoch was made for real." in text


def test_an_epoch_made_for_real_stands_beside_its_forecast(result):
    rows = [
        replace(row, epoch=Epoch(estimated=12.0, measured=10.0, steps=99))
        if row.id == "own"
        else row
        for row in result.rows
    ]
    assert "+20%" in page(replace(result, rows=rows))


def test_nothing_measured_is_a_page_as_well(result):
    bare = replace(result, rows=(), stopped="stopped by <Ctrl-C>")
    text = page(bare)
    assert "Nothing was measured." in text
    assert "&lt;Ctrl-C&gt;" in text
