"""Batches of texts, padded to few shapes, train as they are: losses and gradients."""

import pytest
import torch
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer
from tests.golden.jobs import text
from tests.golden.recordings import CalledAgain

from hotloop.core.plan import Plan, Use
from hotloop.engine.apply_plan import prepare, undo
from hotloop.engine.graphs.recorded_steps import RecordedSteps
from hotloop.engine.graphs.trial import record
from hotloop.engine.step import accumulate, drop_gradients
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.machine.detect import detect
from hotloop.session.accumulation_windows import AccumulationWindows, Position

WORDS = ["quick", "brown", "fox", "jumps", "lazy", "dog", "wizard", "vex"]
SIZE = {"vocab_size": 400, "num_hidden_layers": 2, "max_position_embeddings": 600}
PLAN = Plan(micro_batch=6, accumulation=2, techniques=(Use.of("fused-adamw"),))
CASES = {
    "chat, padded": ["chat-sft", "data.layout=padded", "adapter.method=none"],
    "chat, flat, DoRA": ["chat-sft", "data.layout=flat", "adapter.method=dora"],
    "expert, packed": ["expert-sft", "data.packing=true", "data.max_length=40"],
    "expert, smoothed, fused": [
        "expert-sft",
        "data.layout=flat",
        "model.label_smoothing=0.1",
        "model.cross_entropy=fused",
    ],
    "pairs, flat, weighted": ["pair-classifier", "data.layout=flat", "class_weights=balanced"],
    "pairs, padded": ["pair-classifier", "data.layout=padded", "adapter.method=lora"],
    "tasks": ["task-router", "phase=1"],
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Return what each recipe needs besides the settings of a case."""
    folder = tmp_path_factory.mktemp("texts")
    for name, kind in (("encoder", "bert"), ("decoder", "qwen3")):
        tiny_tokenizer.save(folder / name, bos=kind == "bert")
        off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        tiny_models.saved(folder / name, kind, **SIZE, **(off if kind == "bert" else {}))
    texts = [f"{WORDS[at % 8]} " * (1 + at % 11) + WORDS[at // 8 % 8] for at in range(96)]
    told = jsonl(folder / "rows.jsonl", [{"prompt": t, "response": t[:9]} for t in texts])
    pairs = jsonl(
        folder / "pairs.jsonl",
        [
            {"premise": t, "hypothesis": "dog", "label": int(at % 3 == 0)}
            for at, t in enumerate(texts)
        ],
    )
    tasks = folder / "tasks"
    tasks.mkdir()
    jsonl(tasks / "sentiment.jsonl", [{"text": t, "label": n % 2} for n, t in enumerate(texts)])
    jsonl(tasks / "translation.jsonl", [{"en": text, "fr": f"le {text}"} for text in texts])
    decoder = f"model.name={folder / 'decoder'}"
    files = f'data.files={{"translation": "{tasks / "translation.jsonl"}"}}'
    return {
        "chat-sft": [decoder, f"data.path={told}"],
        "expert-sft": [decoder, f"data.path={told}"],
        "pair-classifier": [f"model.name={folder / 'encoder'}", f"data.path={pairs}"],
        "task-router": [decoder, f"data.path={tasks}", files],
    }


def session_of(job):
    session, _ = prepare(job, PLAN, detect("cpu"), {})
    session.model.train()
    return session


def assembled(given, case):
    """Return a session of a case that may record its steps, and its first micro batches."""
    recipe, *keys = CASES[case]
    request = fresh_request(recipe, [*given[recipe], *keys, "training.batch_size=12"])
    job = assemble(request, engine.silent, lambda: None).job
    session = session_of(job)
    session.undo["cuda-graphs"] = lambda: setattr(session.stepping, "replay", None)
    return session, [batch for window in windows(job, 3) for batch in window]


def windows(job, count):
    feed = AccumulationWindows(samples=job.train, batch_size=12, drop_last=False, cut=job.cut)
    position = Position()
    for _ in range(count):
        yield feed.window(position, PLAN.micro_batch)
        position = feed.after(position)


@pytest.mark.parametrize("case", CASES)
def test_padding_to_a_shape_changes_no_loss_and_no_gradient(given, case):
    recipe, *keys = CASES[case]
    size = ["training.batch_size=12", "training.accumulation=2", "training.precision=fp32"]
    request = fresh_request(recipe, [*given[recipe], *keys, *size])
    job = assemble(request, engine.silent, lambda: None).job
    one, other = session_of(job), session_of(job)
    steps = one.stepping.replay = RecordedSteps(one, CalledAgain())
    padded = 0
    try:
        with torch.no_grad():
            for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
                a.copy_(b)
                if a.requires_grad:  # B of LoRA is 0 at first
                    b.add_(0.05)
                    a.copy_(b)
        for window in [*windows(job, 8), *windows(job, 8)]:
            steps.ready(window)
            padded += sum(
                batch.tokens < passes.inputs.arguments["input_ids"].numel()
                for batch in window
                if (passes := steps._passes.get(steps._shapes.of(batch)))
            )
            mine, theirs = (accumulate(each, window, str, int) for each in (one, other))
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
            for (name, a), b in zip(
                one.model.named_parameters(), other.model.parameters(), strict=True
            ):
                if b.grad is not None:
                    torch.testing.assert_close(a.grad, b.grad, rtol=2e-4, atol=2e-6, msg=name)
            drop_gradients(one)
            drop_gradients(other)
    finally:
        undo(one)
        undo(other)
    assert padded > 4, "few batches were padded"
    assert len({str(shape) for shape in steps._passes}) == len(steps._passes) <= 12


def test_the_trial_proves_and_times(given):
    session, batches = assembled(given, "chat, flat, DoRA")
    session.stepping.graphs = "always"
    before = [p.clone() for p in session.model.parameters()]
    state = torch.get_rng_state()
    outcome = record(session, batches, recording=CalledAgain())
    assert outcome.failure is outcome.needless is None
    assert "times the rate of passes without it" in session.facts["cuda-graphs"]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, session.model.parameters(), before))
    assert not any(p.grad.any() for p in session.model.parameters() if p.grad is not None)
    undo(session)


class Halved(CalledAgain):
    """A recording that has lost half of the gradients."""

    def __init__(self, session):
        self.session = session

    def record(self, once):
        replay, result = super().record(once)

        def half():
            replay()
            for parameter in self.session.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(0.5)

        return half, result


def test_a_replay_that_computes_something_else_is_refused(given):
    session, batches = assembled(given, "expert, packed")
    outcome = record(session, batches, recording=Halved(session))
    assert "a replay differs from an eager pass" in outcome.failure
    assert session.stepping.replay is None
    assert all(p.grad is None for p in session.model.parameters())


@pytest.mark.parametrize(("dropout", "refused"), [(0.1, True), (0.0, False)])
def test_dropout_of_layers_that_are_computed_again_is_not_recorded(dropout, refused):
    """A graph's generator cannot be set back to draw the same mask again."""
    job = text(dropout=dropout)
    session, _ = prepare(job, PLAN.plus("activation-checkpointing"), detect("cpu"), {})
    session.undo["cuda-graphs"] = lambda: setattr(session.stepping, "replay", None)
    outcome = record(session, [job.train.batch(0, 0, 4)], recording=CalledAgain())
    assert ("drawn anew" in (outcome.failure or "")) is refused
    assert (session.stepping.replay is None) is refused
    undo(session)
