import json

from benchmarks import table

RESULT = {
    "title": "A sample",
    "hardware": {"name": "Some CPU", "cores": 2.0},
    "threads": 1,
    "when": "2026-11-21T12:00:00+00:00",
    "took_s": 12.3,
    "busy": True,
    "others_cores": {"before": 0.01, "during": 0.5},
    "floors": {"copy GB/s": 46.2},
    "versions": {"torch": "2.13.0"},
    "base": "bare",
    "quantities": ["us"],
    "rows": {
        "bare": {"us": {"readings": [300.0, 310.0, 305.0]}},
        "hotloop": {"us": {"readings": [270.0, 279.0, 244.0]}},
        "seldom": {"us": {"readings": [12_345.6]}},
    },
    "absent": {"Lightning": "No module named 'lightning'"},
    "goals": [
        {"text": "at most bare", "n": 3, "value": [0.85, 0.9, 0.9], "verdict": "REACHED"},
        {"text": "at most HF", "n": 0, "verdict": "not measured: HF not run"},
    ],
    "notes": ["weights agree"],
}


def test_the_page_is_what_the_results_make_of_it():
    assert table.PAGE.read_text() == table.page(), "run python -m benchmarks.table"


def test_a_result_is_shown_with_ratios_reasons_verdicts_and_its_load():
    text = "\n".join(table.lines(RESULT))
    assert "| hotloop | 270 (257..274)" in text
    assert "| 0.9 (0.85..0.9)" in text
    assert "12,346" in text
    assert "- not run, Lightning: No module named 'lightning'" in text
    assert "- at most bare: 0.9 (0.85..0.9), n 3: **REACHED** [busy]" in text
    assert "- at most HF: n 0: **not measured: HF not run**\n" in text
    assert "0.50 during the run. BUSY" in text


def test_a_result_that_is_not_there_is_named(tmp_path):
    page = table.page(tmp_path)
    assert page.count("Not measured: run `python -m benchmarks.") == 18
    assert "Not measured: run `python -m benchmarks.recipes classifier-long`." in page
    assert page.count("Not measured: no GPU was at hand.") == 1


def test_a_gpus_ladder_is_shown_with_what_failed(tmp_path):
    rungs = {"plain": {"tokens_per_s": {"readings": [10.0, 12.0, 11.0]}}, "graphs": {"failed": "x"}}
    result = {"hardware": {"name": "A GPU"}, "ladder": rungs}
    (tmp_path / "gpu-a-GPU.json").write_text(json.dumps(result))
    text = table.page(tmp_path)
    assert "| plain | 11 (10.5..11.5) | 1.00 | 3 |" in text
    assert "| graphs | x | | 0 |" in text


def test_what_the_doctor_said_on_a_gpu_is_shown(tmp_path):
    found = {"rule": "G5 eager_attn", "severity": "critical", "measured": "1.31x"}
    scripts = {
        "attention": {"expected": ["G5"], "right": True, "loud": [found]},
        "clean": {"expected": [], "right": True, "loud": []},
        "gone": {"expected": ["G1"], "right": False, "failed": "stopped after 90 s"},
    }
    result = {"hardware": {"name": "A GPU", "versions": {"torch": "2.11"}}, "scripts": scripts}
    (tmp_path / "gpu-doctor-a-GPU.json").write_text(json.dumps(result))
    text = table.page(tmp_path)
    assert "A GPU, torch 2.11" in text
    assert "| attention | G5 | G5 eager_attn | 1.31x | yes |" in text
    assert "| clean | innocent | nothing |  | yes |" in text
    assert "| gone | G1 | stopped after 90 s |  | no |" in text
    assert "Not measured: no GPU was at hand." in text
