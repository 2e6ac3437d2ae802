"""The ledger of whole scripts: rows that sum to the wall time, and the line that costs."""

import sys
from dataclasses import fields

import pytest
import torch

from hotloop.core.case.case import Case
from hotloop.core.case.ledger import MEANING
from hotloop.observe.ledger.build import _Recorded

SCRIPT = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8))
    aside = nn.Linear(64, 32768)  # many times the wait for data, also beside other programs
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(640, 64), torch.randint(0, 8, (640,)))

    def look(x):
        return aside(x).erf().erf().erf().erf().erf().erf()

    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            EXTRA
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    last = [weight.detach().clone() for weight in model.parameters()]
    """


@pytest.fixture(autouse=True)
def _nothing_was_compiled():
    """Clear Dynamo's counters, which other tests of this process have raised."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()


def row(case: Case, name: str):
    return next((row for row in case.ledger.rows if row.name == name), None)


def test_rows_sum_to_the_wall_time_and_survive_json(observed):
    case = observed(SCRIPT.replace("EXTRA", ""), full=True)
    assert case.ledger.seconds == pytest.approx(case.seconds, rel=1e-6)
    assert case.ledger.not_split is None
    assert case.ledger.steps == 2
    assert {row.name for row in case.ledger.rows} <= MEANING.keys()
    assert Case.from_json(case.to_json()) == case


def test_work_that_nobody_uses_is_found_with_its_line(observed):
    case = observed(SCRIPT.replace("EXTRA", "look(x)"), full=True)
    dead = row(case, "dead")
    assert dead.avoidable
    assert case.ledger.avoidable[0] == dead
    text = case.sources[dead.place.file].splitlines()[dead.place.line - 1]
    assert text.strip() == "look(x)", "the call that decides, not the lines below it"


def test_recorded_steps_are_in_no_statistics_of_the_steps(observed):
    case = observed(SCRIPT.replace("EXTRA", ""), full=True)
    assert case.steps.count == 40
    recorded = {17, 18, 19}
    assert recorded.isdisjoint(case.steps.numbers)
    assert len(case.steps.wall) == 39 - len(recorded)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("if optimizer.state: break", "too few"),
        ("model = model if loss_of else torch.compile(model, backend='eager')", "torch.compile"),
    ],
)
def test_why_steps_are_not_split_is_said(observed, line, why):
    text = SCRIPT.replace("for epoch", "loss_of = []\n    for epoch").replace("EXTRA", line)
    text = text.replace("loss.backward()", "loss.backward(); loss_of.append(1)")
    case = observed(text, full=True)
    assert why in case.ledger.not_split
    assert case.ledger.seconds == pytest.approx(case.seconds, rel=1e-6)


def test_a_script_ends_with_the_same_weights_and_methods_as_without_a_window(observed):
    before = {name: torch.Tensor.__dict__.get(name) for name in ("numpy", "tolist", "__array__")}
    text = SCRIPT.replace("EXTRA", "x.numpy(); y.tolist()")
    case = observed(text + "\n    import sys; sys.weights_seen = last", full=True)
    assert case.ledger.not_split is None
    with_window = sys.weights_seen
    plain: dict[str, object] = {}
    import textwrap

    exec(textwrap.dedent(text), plain)
    assert all(torch.equal(a, b) for a, b in zip(with_window, plain["last"], strict=True))
    assert before == {name: torch.Tensor.__dict__.get(name) for name in before}
    del sys.weights_seen


def test_functions_that_make_batches_and_that_only_look_are_told_from_the_loop(observed):
    case = observed(
        """
        import time
        import numpy as np
        import torch
        from torch import nn

        model = nn.Linear(16, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def make():
            time.sleep(0.02)
            return torch.tensor(np.random.rand(8, 16), dtype=torch.float32)

        def report(loss):
            value = float(loss.detach())
            until = time.perf_counter() + 0.02
            while time.perf_counter() < until:
                value = np.sqrt(value + 1)

        for step in range(60):
            batch = make()
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss)
        """,
        full=True,
    )
    assert case.part(row(case, "logging").seconds) > 0.3
    waits = (
        row(case, "waiting for data").seconds + (row(case, "idle") or row(case, "start")).seconds
    )
    assert waits > 0.6
    assert all(field.name in case.ledger.__class__.__slots__ for field in fields(case.ledger))


PHASES = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    x, y = torch.randn(64, 32), torch.randn(64, 4)

    def train(steps, width):
        model = nn.Sequential(nn.Linear(32, width), nn.Tanh(), nn.Linear(width, 4))
        optimizer = OPTIMIZER
        for step in range(steps):
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        EVALUATE

    def second(model):
        return torch.optim.AdamW(model.parameters())

    CALLS
    """


def phases(
    calls: str, *, optimizer: str = "torch.optim.AdamW(model.parameters())", evaluate="pass"
):
    return (
        PHASES.replace("CALLS", calls).replace("OPTIMIZER", optimizer).replace("EVALUATE", evaluate)
    )


@pytest.mark.parametrize(
    "script",
    [
        phases("train(40, 64)"),
        phases("train(7, 64)"),
        phases("train(30, 64); train(30, 512)"),
        phases("train(40, 64)", evaluate="[model(x).detach() for _ in range(50)]"),
        phases("import torch._dynamo\n    train(3, 64)"),
    ],
)
def test_the_rows_of_every_script_sum_to_the_wall_time(observed, script):
    case = observed(script, full=True)
    assert case.ledger.seconds == pytest.approx(case.seconds, rel=0.005)
    assert case.ledger.seconds == pytest.approx(sum(case.wall.values()), rel=0.005)


@pytest.mark.parametrize("steps", [6, 7, 12, 19])
def test_a_window_opens_early_where_few_steps_are_planned(observed, steps):
    case = observed(phases(f"train({steps}, 64)"), full=True)
    assert case.ledger.not_split is None
    assert row(case, "unaccounted") is None or row(case, "unaccounted").seconds < 1e-6
    assert row(case, "useful").seconds > 0


def test_steps_of_an_optimizer_without_a_window_are_not_charged_by_another_ones(observed):
    one = "torch.optim.AdamW(model.parameters()) if steps > 9 else second(model)"
    case = observed(phases("train(40, 64); train(2, 512)", optimizer=one), full=True)
    assert row(case, "unaccounted").seconds > 0
    case = observed(phases("train(40, 64); train(40, 512)", optimizer=one), full=True)
    assert row(case, "unaccounted") is None or row(case, "unaccounted").seconds < 1e-6
    case = observed(
        phases("train(40, 64); train(30, 512)", optimizer=one.replace("9", "39")), full=True
    )
    assert row(case, "unaccounted") is None or row(case, "unaccounted").seconds < 1e-6
    assert case.ledger.steps == 4, "a window for each of them"


@pytest.mark.parametrize(("batches", "some"), [(1, False), (2000, True)])
def test_an_evaluation_is_avoidable_above_a_tenth_of_the_training_time(observed, batches, some):
    evaluate = "model.eval()\n        with torch.no_grad():\n            "
    evaluate += f"[model(x) for _ in range({batches})]"
    text = phases("[train(100, 256) for _ in range(3)]", evaluate=evaluate)
    evaluating = row(observed(text, full=True), "evaluating")
    assert evaluating.avoidable is some
    assert evaluating.needed > 0
    assert (evaluating.excess > 0) is some
    assert evaluating.excess == pytest.approx(evaluating.seconds - evaluating.needed, abs=1e-9)


@pytest.mark.parametrize(("every", "avoidable"), [(1000, True), (25, False)])
def test_frozen_work_on_rows_of_a_table_is_avoidable_unless_its_weights_change_later(
    observed, every, avoidable
):
    case = observed(
        f"""
        import time
        import torch
        from torch import nn

        torch.manual_seed(0)
        table = torch.randn(512, 64)
        target, model = nn.Linear(64, 512), nn.Linear(64, 512)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(60):
            rows = table[torch.randint(512, (64,))]
            with torch.no_grad():
                wanted = target(rows)
            loss = (model(rows) - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % {every} == {every} - 1:
                target.load_state_dict(model.state_dict())
            time.sleep(0.02)
        """,
        full=True,
    )
    frozen = row(case, "frozen")
    assert (frozen is not None and frozen.avoidable) is avoidable


def test_an_agent_that_acts_without_gradients_is_no_avoidable_evaluation(observed):
    evaluate = "with torch.no_grad():\n            [model(x) for _ in range(400)]"
    text = phases("[train(20, 256) for _ in range(3)]", evaluate=evaluate)
    assert not row(observed(text, full=True), "evaluating").avoidable


@pytest.mark.parametrize("steps", [7, 12, 40])
def test_two_optimizers_that_take_turns_share_a_window(observed, steps):
    case = observed(
        f"""
        import torch
        from torch import nn

        one, two = nn.Linear(64, 256), nn.Linear(256, 1)
        first = torch.optim.SGD(one.parameters(), lr=0.01)
        second = torch.optim.SGD(two.parameters(), lr=0.01)
        for step in range({steps}):
            x = torch.randn(32, 64)
            loss = two(one(x)).square().mean()
            first.zero_grad()
            loss.backward()
            first.step()
            loss = two(one(x)).abs().mean()
            second.zero_grad()
            loss.backward()
            second.step()
        """,
        full=True,
    )
    assert case.ledger.not_split is None
    assert case.ledger.seconds == pytest.approx(case.seconds, rel=0.005)
    assert row(case, "unaccounted") is None or row(case, "unaccounted").seconds < 1e-6


def test_a_part_of_a_step_that_takes_no_time_is_hosts():
    recorded = object.__new__(_Recorded)
    recorded.seconds = {"forward": {("useful", ("add", ())): 0.0}}
    assert recorded.split("forward", []) == {("host", None): 1.0}


def test_work_with_another_form_is_in_the_ledger_and_survives_json(observed):
    case = observed(
        """
        import torch
        from torch import nn

        encoder = nn.Linear(8, 32)
        optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)

        def distances(z):
            difference = z[None] - z[:, None]
            return difference.square().sum(-1)

        for step in range(40):
            loss = distances(encoder(torch.randn(64, 8))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
        full=True,
    )
    (rewrite,) = case.ledger.rewrites
    assert (rewrite.kind, rewrite.form, rewrite.calls) == ("contraction", "squared", 1)
    lines = [case.sources[one.file].splitlines()[one.line - 1] for one in rewrite.places]
    assert [line.strip() for line in lines] == [
        "difference = z[None] - z[:, None]",
        "return difference.square().sum(-1)",
    ]
    assert Case.from_json(case.to_json()) == case


@pytest.mark.parametrize(("drawn", "avoidable"), [(64, True), (1, False)])
def test_frozen_results_of_rows_that_hardly_come_again_cannot_be_kept(observed, drawn, avoidable):
    case = observed(
        f"""
        import time
        import torch
        from torch import nn

        table, frozen, model = torch.randn(1024, 64), nn.Linear(64, 512), nn.Linear(64, 512)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(60):
            rows = table[torch.randint(1024, ({drawn},))].expand(64, 64)
            with torch.no_grad():
                wanted = frozen(rows)
            loss = (model(rows) - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.02)
        """,
        full=True,
    )
    assert case.ledger.drawn == pytest.approx(drawn / 1024)
    assert row(case, "frozen").avoidable is avoidable


def test_the_host_starts_nothing_for_operators_that_are_gone(observed):
    case = observed(
        """
        import torch
        from torch import nn

        def unused(x):
            for _ in range(50):
                x = x + 1
            return x

        model = nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1500):
            x = torch.randn(4, 8)
            unused(x)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        """,
        full=True,
    )
    dead = row(case, "dead")
    operators = sum(one.seconds for one in case.ledger.rows if one.name in ("useful", "moved"))
    assert dead.seconds > operators, "most of its time is Python that starts small operators"
    assert case.ledger.seconds == pytest.approx(case.seconds, rel=0.005)
