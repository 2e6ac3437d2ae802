"""What the doctor said rightly of examples/gpu on an H200, it still says of the observations.

They were kept by benchmarks/gpu/doctor.py. Their wall time lacks what the GPU did
during hotloop's own reads (docs/log.md, 2026-11-27); what leads does not depend on it.
"""

import json
import re
from pathlib import Path

import pytest

from hotloop import rules
from hotloop.core.case.case import Case
from hotloop.diagnosis.chosen_experiments import chosen
from hotloop.report.sentences import is_loud
from hotloop.rules.diagnose import diagnose

SEEN = Path(__file__).parent / "golden" / "gpu_seen"
FIRST = {  # the rule of the first finding and its line, if it has one; None: nothing loud
    "clean_transformer": None,
    "float32_pictures": ("G9", None),
    "float32_products": ("G1", None),
    "hidden_wait": ("H1", None),
    "many_small_kernels": ("H1", None),
    "single_updates": ("G7", 8),
    "slow_pictures": ("D28", 22),
    "written_attention": ("G5", 22),
}


def seen(name):
    return Case.from_json(json.loads((SEEN / f"{name}.json").read_text()))


def findings(name):
    return diagnose(seen(name)).findings


PAGES = {
    (rule.label, name): rule
    for rule in rules.ALL
    for name in re.findall(r"examples/gpu/(\w+)\.py", rule.page)
}


@pytest.mark.parametrize(("label", "name"), PAGES)
def test_a_page_that_names_a_script_of_a_gpu_is_of_a_rule_that_spoke_there(label, name):
    assert PAGES[label, name].findings(seen(name))


@pytest.mark.parametrize("name", FIRST)
def test_what_led_rightly_on_a_gpu_leads_again(name):
    loud = [finding for finding in findings(name) if is_loud(finding)]
    if FIRST[name] is None:
        assert not loud
        return
    rule, line = FIRST[name]
    assert loud[0].rule.startswith(f"{rule} ")
    assert line is None or loud[0].places[0].line == line


def test_a_low_share_of_the_peak_alone_is_a_note():
    assert {f.severity for f in findings("clean_transformer")} == {"note"}


def test_what_a_script_uses_already_is_no_remedy():
    [finding] = [f for f in findings("many_small_kernels") if f.rule.startswith("H1 ")]
    assert {remedy.technique for remedy in finding.remedies} == {"compile", None}


def test_products_in_full_float32_are_tried_in_faster_formats():
    assert {"tf32", "autocast"} <= {one.name for one in chosen(seen("many_small_kernels"))}
    assert "autocast" not in {one.name for one in chosen(seen("written_attention"))}


def test_precision_is_judged_by_what_was_measured():
    [finding] = [f for f in findings("float32_products") if f.rule.startswith("G1 ")]
    assert "7.76x" in finding.measured
    tried = {remedy.technique: remedy.tried or "" for remedy in finding.remedies}
    assert "7.76x" in tried["autocast-bf16"]
    assert "4.35x" in tried["tf32"]


def test_other_work_of_a_step_is_no_part_of_its_attention():
    case = seen("written_attention")
    [rewrite] = [one for one in case.ledger.rewrites if one.kind == "attention"]
    assert rewrite.seconds > case.step_time.median  # the host's clock, as it was then
    [finding] = [f for f in findings("written_attention") if f.rule.startswith("G5 ")]
    assert f"{rewrite.share:.0%} of the time" in finding.claim
