import json
import math
import re
import time

import pytest
from tests.report.conftest import EVIL, PLAN, Sound, end, session, step, usual

from hotloop.core.events import event_line
from hotloop.core.storage.rundir import RunDir
from hotloop.report.facts import read_facts
from hotloop.report.page import page

ROWS = ("Losses", "Speed and memory", "Where the wall time went", "Techniques",
        "Gradient and learning rate", "Notes", "Sample", "Model and data", "Settings")  # fmt: skip


def test_a_page_has_every_part_once(made):
    written = page(read_facts(made("run", usual(40))), sample="To be & <not>")
    assert re.findall(r"<h2>(.*?)</h2>", written) == list(ROWS)
    assert "To be &amp; &lt;not&gt;" in written
    assert "best validation loss" in written
    sound = Sound(written)
    assert len(sound.ids) == len(set(sound.ids)), "a title is found by its id"
    assert sound.names.count("h1") == 1
    assert sound.names.count("svg") > 10


def test_the_same_run_gives_the_same_page(made):
    run = made("run", usual(40))
    assert page(read_facts(run)) == page(read_facts(run))


@pytest.mark.parametrize(
    ("events", "record"),
    [
        ([], {"status": "running"}),
        ([session()], {"status": "running"}),
        ([session(), step(1, t=1.1), end(1, t=1.2, reason="the loss is nan", start=1.0)],
         {"status": "diverged", "reason": "the loss is nan"}),
        (usual(10)[:-1], {"status": "running"}),
        (usual(10), {"plan": PLAN, "hardware": None, "config": None, "origins": None,
                     "facts": None, "choices": None, "data": None, "effects": None,
                     "recipe": None, "status": None, "reason": None, "created": None,
                     "steps": None}),
    ],
    ids=["no event", "no step", "diverged", "killed", "almost nothing known"],
)  # fmt: skip
def test_a_run_that_went_wrong_has_a_page_that_says_unknown(made, events, record):
    written = page(read_facts(made("run", events, **record)), why_no_sample="no checkpoint yet")
    Sound(written)
    assert "unknown" in written
    assert "There is no sample: no checkpoint yet." in written
    assert ">None<" not in written
    assert not re.search(r"\bnan%|\binf%|>nan<", written)


def hostile(value: object) -> object:
    """Return a JSON value with EVIL in every text, and as one more key of every object."""
    if isinstance(value, dict):
        return {**{key: hostile(item) for key, item in value.items()}, EVIL: EVIL}
    if isinstance(value, list):
        return [*(hostile(item) for item in value), EVIL]
    return EVIL if isinstance(value, str) else value


def test_a_hostile_run_folder_cannot_speak_html(made, tmp_path):
    lines = [
        session(),
        step(1, t=1.1, clock=EVIL, ids=EVIL),
        event_line("note", step=1, t=1.2, text=EVIL),
        event_line("end", step=1, t=1.3, reason=EVIL, wall={EVIL: 1.0, "step": 0.5}),
    ]
    path = made("x<img src=y onerror=z>", lines)
    record = json.loads((path / "run.json").read_text())
    parts = {key: hostile(value) for key, value in record.items() if key != "hardware"}
    evil_hardware = {**record["hardware"], "name": EVIL, "versions": {EVIL: EVIL}}
    kept = {**parts, "schema": 1, "hardware": evil_hardware}
    (path / "run.json").write_text(json.dumps(kept))
    written = page(read_facts(RunDir(path).path), sample=EVIL, why_no_sample=EVIL)
    written.encode()
    sound = Sound(written)
    assert sound.names.count("script") == sound.names.count("style") == 1
    assert "img" not in sound.names
    assert not [name for name in sound.attributes if name.startswith("on") or name == "style"]
    assert written.count("&lt;script&gt;alert(1)") > 10, "it is shown, as text"


@pytest.mark.parametrize("worst", [1e308, -1e308, 5e-324, 0.0, math.nan, math.inf])
def test_hostile_numbers_give_a_page(made, worst):
    text = json.dumps(worst)
    lines = [session(), *(step(n, t=1 + n / 10, loss=2.0, lr=0.125) for n in range(1, 30))]
    lines = [line.replace('"loss":2.0', f'"loss":{text}') for line in lines]
    lines[5] = (
        lines[5].replace('"lr":0.125', f'"lr":{text}').replace('"norm":1.0', f'"norm":{text}')
    )
    Sound(page(read_facts(made("run", lines))))


def long_run(count: int) -> list[str]:
    lines = [session()]
    for n in range(1, count + 1):
        wave = math.sin(n * 12.9898) * 43758.5453 % 1  # noise that needs no generator
        loss = 1.5 + 3 * math.exp(-n / 2000) + 0.2 * wave + 30 * (n == count // 2)
        lines.append(step(n, t=1 + n * 0.01 + wave / 500, loss=loss, norm=wave, lr=n * 1e-7))
        if n % 20 == 0 and n <= 10_000:
            lines.append(
                event_line(
                    "reading", step=n, t=1 + n / 100, memory_bytes=1e9 * wave, utilisation=wave
                )
            )
        if n % 500 == 0:
            fields = {"wall": 0.1, "loss": loss, "targets": 9, "best": True}
            lines.append(event_line("eval", step=n, t=1 + n * 0.01, **fields))
    return [*lines, end(count, t=count, step=float(count))]


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_run_gives_a_small_page_at_once_and_hides_no_spike(made, count):
    path = made("long", long_run(count))
    began = time.perf_counter()
    written = page(read_facts(path))
    assert time.perf_counter() - began < 60, "seconds, on a machine that others keep busy"
    assert len(written.encode()) < 150_000
    axis = re.search(r'id="losses-desc">.*? Up: loss, nats, \S+ to (\S+)', written)
    assert axis is not None
    assert float(axis[1].rstrip(".,")) > 31, "the spike of one step is within the axis"
    Sound(written)
