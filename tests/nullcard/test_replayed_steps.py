"""Recorded steps on null cards: a step is a few launches, and nothing of it waits."""

import statistics

import pytest
from tests.nullcard.golden import hold
from tests.nullcard.techniques import CHANGES
from tests.nullcard.training import trainer

pytestmark = pytest.mark.nullcard

REPLAYED = [recipe for recipe in CHANGES if recipe.name.endswith(", with cuda-graphs")]
CASES = [
    *((recipe, "rtx4090") for recipe in REPLAYED),
    *((recipe, "t4") for recipe in REPLAYED if "packed" in recipe.name),
]
FEW = 12  # launches of a step: the batch's tensors are set, three graphs launched, results copied
FP16 = 80  # the update under GradScaler is made eagerly
RECORDED = 4  # waits of a step in which a shape is recorded, and of one that is read


@pytest.fixture(scope="module")
def trained(interpreter):
    """Train a recipe on a card, once; return what each of its runs did."""
    pytest.importorskip("transformers", reason="the models are transformers' (hotloop[hf])")
    with trainer(interpreter) as train:
        yield train


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case[0].name} on {case[1]}") for case in CASES]
)
def test_a_step_is_replayed(trained, case):
    recipe, card = case
    facts = trained(recipe, card)
    assert facts["exit"] == 0, facts["said"]
    for one, run in zip(recipe.runs, facts["runs"], strict=True):
        hold(recipe.named(one), card, facts["torch"], run, pools=2)
        late = run["steps"][60:]  # before, gradients are looked at, and most shapes are new
        few = FP16 if card == "t4" else FEW
        assert statistics.median(step["launches"] for step in late) <= few
        waits = [sum(step["waits"].values()) for step in late]
        assert statistics.median(waits) == 0
        assert max(waits) <= RECORDED


SESSION = """
import torch
from types import SimpleNamespace
from hotloop.core.hardware import Hardware
from hotloop.engine.graphs.recorded_steps import RecordedSteps
from hotloop.engine.graphs.recording import CudaRecording
from hotloop.engine.graphs.trial import record
from hotloop.engine.step import NonFiniteGuard, accumulate, update
from hotloop.session.batch import Batch
from hotloop.session.session import Session
model = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 8))
model.cuda()
waits = []
def forward(tensors):
    loss = model(tensors["x"]).square().mean()
    if waits:
        loss.item()
    return loss
one = Session(
    job=SimpleNamespace(widest=None, fillers={}, learns_all=False),
    hardware=Hardware(device="cuda", name="a card"), device=torch.device("cuda"), model=model,
    micro_batch=4, accumulation=1, forward=forward,
    optimizer=torch.optim.AdamW(model.parameters(), lr=0.1, fused=True),
)
one.undo["cuda-graphs"] = lambda: setattr(one.stepping, "replay", None)
def batch(rows):
    return Batch(tensors={"x": torch.ones(rows, 512)}, samples=rows, tokens=rows, targets=rows)
"""


def test_shapes_share_their_memory(on_card):
    """A recording takes the memory of the others, not as much again."""
    script = f"""{SESSION}
steps = RecordedSteps(one, CudaRecording())
reserved = []
for rows in (40_000, 39_000, 20_000, 38_000):
    steps.ready([batch(rows)])
    reserved.append(torch.cuda.memory_reserved() >> 20)
facts["decided"] = sorted(set(one.stepping.decided.values()))
facts["reserved"] = reserved
"""
    facts = on_card("rtx4090", script).facts
    assert facts["decided"] == ["recorded"]
    first, *others = facts["reserved"]
    assert first > 600
    assert max(others) < first + 250  # inputs of 80 MiB each stay


def test_the_update_is_one_launch_and_takes_each_learning_rate(on_card):
    script = f"""{SESSION}
record(one, [batch(64)])
guard = NonFiniteGuard(one)
made = []
for step in range(5):
    one.optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
    loss = accumulate(one, [batch(64)], str, int)
    done = counted(lambda: update(one, guard, loss, 1.0))
    made.append([done.launches, done.graphs["launched"], sum(done.waits.values())])
facts["made"] = made
facts["rates"] = [rate.is_cuda for rate in one.stepping.replay._update.rates]
"""
    facts = on_card("rtx4090", script).facts
    _, eager, recorded, *replayed = facts["made"]
    assert eager[0] > 10
    assert recorded[1] == 1
    assert replayed == [[1, 1, 0], [1, 1, 0]]  # the learning rate is set; the graph is launched
    assert facts["rates"] == [True]


def test_a_step_that_waits_is_not_recorded_and_training_goes_on(on_card):
    script = f"""{SESSION}
waits.append(1)
outcome = record(one, [batch(64)])
facts["failure"] = outcome.failure
facts["replay"] = one.stepping.replay is not None
loss = accumulate(one, [batch(64)], str, int)
update(one, NonFiniteGuard(one), loss, 1.0)
facts["grads"] = [p.grad is None for p in model.parameters()]
"""
    facts = on_card("rtx4090", script).facts
    assert "captur" in facts["failure"]
    assert not facts["replay"]
    assert all(facts["grads"])


def test_without_memory_for_a_recording_the_run_stays_eager(on_card):
    script = f"""{SESSION}
outcome = record(one, [batch(64)])
facts["small"] = outcome.failure
steps = one.stepping.replay
steps.ready([batch(1_000_000)])
facts["decided"] = sorted(one.stepping.decided.values())
facts["micro"] = steps.micro(batch(1_000_000), 1.0) is None
facts["goes_on"] = steps.micro(batch(64), 1.0) is not None
"""
    facts = on_card("rtx4090", script, memory=8_000).facts
    assert facts["small"] is None
    assert facts["decided"] == ["eager", "recorded", "replayed"]
    assert facts["micro"]
    assert facts["goes_on"]
