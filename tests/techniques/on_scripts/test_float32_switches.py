"""Scripts that read and set switches of float32 precision, with techniques that set one too."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.paths import ROOT

WHEN = ("top", "middle", "end")
TOUCHES = {
    "older": "torch.backends.cuda.matmul.allow_tf32 = True",
    "older off": "torch.backends.cuda.matmul.allow_tf32 = False",
    "precision": "torch.set_float32_matmul_precision('high')",
    "newer": "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "newer off": "torch.backends.cuda.matmul.fp32_precision = 'ieee'",
    "newer of a CPU": "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
    "newer of all": "torch.backends.fp32_precision = 'tf32'",
    "convolutions": "torch.backends.cudnn.allow_tf32 = False",
    "a block": "with torch.backends.flags(fp32_precision='ieee'): pass",
    "nothing": "pass",
}
SCRIPT = """
import torch
def said():
    for read in (
        "torch.get_float32_matmul_precision()", "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cuda.matmul.fp32_precision", "torch.backends.mkldnn.matmul.fp32_precision",
        "torch.backends.fp32_precision", "torch.backends.cudnn.fp32_precision",
    ):
        try:
            print(read, eval(read))
        except RuntimeError as error:
            print(read, str(error)[:60])
def touch():
    {touch}
    {then}
if "{when}" == "top": touch()
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    loss = net(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    if "{when}" == "middle" and step == 1: touch()
if "{when}" == "end": touch()
print("loss", loss.item())
"""
# Each line asked: a script and the precision that a technique sets, "" for none. Answers what the
# script printed and what came of the technique. Each script has a process of its own.
DRIVER = """
import contextlib, io, json, os, runpy, sys
from dataclasses import replace
import torch, torch._dynamo, hotloop.machine.detect  # once, before the processes fork
from hotloop import techniques
from hotloop.core.plan import Plan
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.techniques.on_scripts.float32_switches import in_effect, turn
from hotloop.techniques.base import anywhere
torch.set_num_threads(1)
def run(path, to):
    out, effects = io.StringIO(), []
    observer = ScriptObserver(StopLimits(full=True, probing=False))
    plan = Plan(micro_batch=1).plus("tf32")
    known = [replace(
        techniques.get("tf32"), blocked=anywhere, apply=lambda session: turn(session, "tf32", to),
        read_back=lambda session: to if in_effect(session, "tf32", to) else None,
    )]
    put_in = AppliedTechniques(plan, {}, known=known)
    if to:
        put_in.join(observer)
    observer.start()
    with contextlib.redirect_stdout(out):
        runpy.run_path(path, run_name="__main__")
    observer.finish()
    found = [[e.word, e.how] for e in put_in.effects()] if to else []
    assert observer.hooks.fault is None, observer.hooks.fault
    return out.getvalue(), found
for line in sys.stdin:
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            answer = run(*json.loads(line))
        except BaseException as error:
            answer = repr(error), []
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        print(file.read(), flush=True)
    os.wait()
"""


class Told(dict):
    """What each script said, by touch, time, whether it reads back, and the precision set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.driver = subprocess.Popen([sys.executable, "-c", DRIVER], cwd=ROOT, **pipes)

    def __missing__(self, key: tuple[str, str, str, str]) -> tuple[str, list]:
        touch, when, reads, to = key
        path = self._folder / "train.py"
        then = "said()" if reads == "y" else "pass"
        path.write_text(SCRIPT.format(touch=TOUCHES[touch], when=when, then=then))
        self.driver.stdin.write(json.dumps([str(path), to]) + "\n")
        self[key] = json.loads(self.driver.stdout.readline())
        return self[key]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    told = Told(tmp_path_factory.mktemp("scripts"))
    with told.driver:  # it ends with its input
        yield told


@pytest.mark.parametrize("to", ["medium", "high"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("touch", TOUCHES)
def test_a_script_meets_its_own_switches(told, touch: str, when: str, to: str) -> None:
    for reads in "yn":
        plain, _ = told[touch, when, reads, ""]
        said, _ = told[touch, when, reads, to]
        assert "loss" in plain
        assert said == plain


@pytest.mark.parametrize("to", ["medium", "high"])
def test_a_technique_says_whether_the_script_took_it_back(told, to: str) -> None:
    assert told["nothing", "middle", "n", to][1] == [["in effect", to]]
    assert told["older", "top", "n", to][1][0][0] != "refused"  # set again before the first step
    for touch, when in itertools.product(("older off", "newer off"), ("middle", "end")):
        ((word, how),) = told[touch, when, "n", to][1]
        assert word == "refused"
        assert "the script itself asked for a switch of float32 precision" in how
    ((word, how),) = told["newer", "top", "n", to][1]
    assert word == "refused"
    assert "mixes torch's older and newer switches" in how
