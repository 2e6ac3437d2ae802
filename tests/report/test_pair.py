import re

from tests.report.conftest import EVIL, HARDWARE, RECORD, Sound, usual
from tests.report.test_figures import judged

from hotloop.core.plan import Plan
from hotloop.report.facts import read_facts
from hotloop.report.pair import pair

CONFIG = RECORD["config"]
assert isinstance(CONFIG, dict)


def test_two_runs_stand_side_by_side_and_what_differs_comes_first(made):
    a = read_facts(made("first", usual(40)))
    b = read_facts(
        made("second", usual(20, seconds=0.05), config={**CONFIG, "seed": 2},
             plan=Plan(micro_batch=2).plus("fused-adamw"))
    )  # fmt: skip
    written = pair(a, b)
    sound = Sound(written)
    assert len(sound.ids) == len(set(sound.ids))
    titles = re.findall(r"<h2>(.*?)</h2>", written)
    assert titles[0] == "What differs"
    assert len(titles) == len(set(titles)) == 8
    differs = written.split("What differs")[1].split("<section>")[0]
    assert re.findall(r"<th[^>]*><code>(.*?)</code>", differs) == ["seed", "micro batch", "sdpa"]
    assert re.findall(r"<mark><code>(.*?)</code>", written) == ["1", "2"], "the seeds"
    assert "Speed: B is faster." in written
    assert "A training" in written
    assert "B validation" in written


def ratios(written: str) -> dict[str, str]:
    table = written.split("<h2>Figures</h2>")[1].split("</table>")[0]
    rows = re.findall(r'scope="row"[^>]*>(.*?)</th>.*?data-label="B over A">(.*?)</td>', table)
    return dict(rows)


def test_figures_have_a_ratio_where_they_may_be_compared(made):
    a = read_facts(made("a", usual(40)))
    b = read_facts(made("b", usual(40, seconds=0.05)))
    found = ratios(pair(a, b))
    assert found["throughput"] == found["MFU"] == "2"
    assert found["best validation loss"] == "1"
    assert found["wall time"] == "0.636"


def test_a_score_that_one_run_has_alone_is_shown_and_not_compared(made):
    a = read_facts(made("a", judged(0.2, 0.7), config={"metric": "macro_f1"}))
    b = read_facts(made("b", usual(40)))
    for one, other, cells in ((a, b, ("0.7000", "-")), (b, a, ("-", "0.7000"))):
        written = pair(one, other)
        assert ratios(written)["best macro_f1"] == "not compared"
        row = written.split(">best macro_f1</th>")[1].split("</tr>")[0]
        shown = re.findall(r'data-label="[AB]">([^<]*)', row)
        assert tuple(shown) == cells


def test_figures_of_unlike_machines_or_data_have_none(made):
    other = {**HARDWARE.to_json(), "name": "Other CPU"}
    a = read_facts(made("a", usual(40)))
    b = read_facts(made("b", usual(40), hardware=other, data={"fingerprint": "other"}))
    written = pair(a, b)
    found = ratios(written)
    assert found.pop("steps") == "1"
    assert set(found.values()) == {"not compared"}
    assert "Speed: cannot be told." in written
    assert "name (Test CPU and Other CPU)" in written


def test_speed_within_the_noise_has_no_ratio_but_memory_has(made):
    found = ratios(pair(read_facts(made("a", usual(40))), read_facts(made("b", usual(40)))))
    assert found["throughput"] == found["MFU"] == "not compared"
    assert found["peak memory"] == "1"


def test_runs_that_agree_in_all_say_so(made):
    a, b = read_facts(made("a", usual(40))), read_facts(made("b", usual(40)))
    assert "Nothing: settings, plan, data, hardware and versions agree." in pair(a, b)


def test_a_run_without_events_beside_another(made):
    a, b = read_facts(made("a", usual(40))), read_facts(made("zero", [], status="running"))
    for written in (pair(a, b), pair(b, a)):
        Sound(written)
        assert ">None<" not in written
        assert "has no step after its warm-up" in written


def test_both_bars_share_one_scale(made):
    a, b = read_facts(made("a", usual(40))), read_facts(made("b", usual(20)))
    bars = re.findall(
        r'<svg class="bar".*?</svg>|<svg[^>]*aria-labelledby="wall-.*?</svg>', pair(a, b)
    )
    widths = [sum(float(w) for w in re.findall(r'width="([\d.]+)%"', bar)) for bar in bars]
    assert widths[0] > 99
    assert 60 < widths[1] < 66, "3.5 of 5.5 seconds"


def test_hostile_names_and_settings_stay_text(made):
    a = read_facts(made("<script>a", usual(5), config={EVIL: EVIL}, reason=EVIL, recipe=EVIL))
    b = read_facts(made("b", usual(5)))
    sound = Sound(pair(a, b))
    assert sound.names.count("script") == 1
    assert "img" not in sound.names
