"""task-router from rows to routed answers, in three phases."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.api import load_run
from hotloop.core.errors import ConfigError, DataError, UsageError
from hotloop.core.progress import Progress
from hotloop.core.version import code_version
from hotloop.jobs import run as execute
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request, saved_request
from hotloop.jobs.start_point import start_weights
from hotloop.models.backbone import load_backbone
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.task_router import feature_cache
from hotloop.session.session import Parallel

WORDS = ["quick", "brown", "fox", "jumps", "lazy", "dog", "wizard", "vex"]


@pytest.fixture(scope="module", params=["bert", "qwen3"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    tiny_tokenizer.save(folder, bos=request.param == "bert")
    return tiny_models.saved(folder, request.param, vocab_size=400, num_hidden_layers=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with two tasks that are easy to tell apart."""
    folder = tmp_path_factory.mktemp("tasks")
    texts = [f"{WORDS[at % 8]} {WORDS[at // 8 % 8]}" for at in range(48)]
    jsonl(
        folder / "sentiment.jsonl",
        [{"text": f"it is {text}", "label": at % 2} for at, text in enumerate(texts)],
    )
    contexts = [f"a {text} dog jumps over the {WORDS[at % 5]}" for at, text in enumerate(texts)]
    jsonl(
        folder / "squad.jsonl",
        [
            {
                "context": context,
                "question": "over what?",
                "answers": {"text": ["jumps"], "answer_start": [context.index("jumps")]},
            }
            for context in contexts
        ],
    )
    return folder


def settings(model, data, *more):
    own = [
        f"model.name={model}",
        f"data.path={data}",
        "data.max_length=48",
        "data.validation_share=0.25",
        "adapter.rank=2",
        "router.width=16",
        *(
            f"{part}.{key}"
            for part in ("training", "router_training", "joint_training")
            for key in (
                "epochs=null",
                "max_steps=4",
                "batch_size=8",
                "log_every=1",
                "precision=fp32",
            )
        ),
        *(f"{part}.accumulation=2" for part in ("training", "joint_training")),
        *(f"{part}.eval_every_epochs=null" for part in ("training", "router_training")),
        "joint_training.eval_every_epochs=null",
        *(f"{p}.eval_every_steps=4" for p in ("training", "router_training", "joint_training")),
    ]
    keys = {text.partition("=")[0] for text in more}
    return [*(text for text in own if text.partition("=")[0] not in keys), *more]


@pytest.fixture(scope="module")
def phases(model, data, tmp_path_factory):
    """Return the folder of all three phases."""
    out = tmp_path_factory.mktemp("phases")
    request = fresh_request("task-router", settings(model, data))
    results = dict(engine.train_series(request, out=out))
    assert [result.exit_code for result in results.values()] == [0, 0, 0]
    assert list(results) == ["phase-1", "phase-2", "phase-3"]
    return out


def weights(run):
    return load_run(run).model("last").state_dict()


def test_each_phase_is_a_run_that_says_what_it_trains(phases):
    first, second, third = (load_run(phases / f"phase-{n}") for n in (1, 2, 3))
    figures = first.evaluations[-1]["figures"]
    assert {"sentiment: right", "questions: right", "tasks"} <= set(figures)
    assert "routing_accuracy" not in figures
    assert set(second.evaluations[-1]["figures"]) >= {"routing_accuracy", "routing_entropy"}
    assert set(third.evaluations[-1]["figures"]) >= {"routing_accuracy", "tasks"}
    assert "adapters" in first.record["facts"]["trains"]
    assert json.loads((phases / "phase-1" / "tasks.json").read_text())["tasks"] == [
        "sentiment",
        "questions",
    ]


@pytest.mark.parametrize("phase", [1, 3])
def test_the_frozen_model_is_the_same_to_the_last_bit(
    phases, model, data, tmp_path, monkeypatch, phase
):
    sessions, set_up = [], execute.set_up

    def spied(*args, **more):
        made = set_up(*args, **more)
        sessions.append(made[0])
        return made

    monkeypatch.setattr(execute, "set_up", spied)
    before = [f"adapters_from={phases}/phase-1", f"router_from={phases}/phase-2"]
    asked = settings(model, data, f"phase={phase}", *(before if phase == 3 else []))
    engine.train(fresh_request("task-router", asked), out=tmp_path / "run")
    trained = sessions[0].model
    fresh = load_backbone(
        find_model(str(model)), head=trained.heads is None, isolation=tiny_models.isolation()
    ).state_dict()
    own = trained.backbone.state_dict()
    assert all(torch.equal(value, own[name]) for name, value in fresh.items())
    adapters = [each for name, each in own.items() if name.endswith("lora_B")]
    ranks = 2 * len(trained.shares.tasks)
    assert adapters
    assert all(b.shape[1] == ranks and b.abs().amax(0).gt(0).all() for b in adapters)


def test_what_is_frozen_is_not_kept(phases, model):
    router = load_run(phases / "phase-3").model("last")
    fresh = load_backbone(
        find_model(str(model)), head=router.heads is None, isolation=tiny_models.isolation()
    ).state_dict()
    kept = load_file(load_run(phases / "phase-3").checkpoint("last").path / "model.safetensors")
    assert not {name for name in kept if name.removeprefix("trunk.") in fresh}


def test_phase_3_goes_on_from_the_phases_before(phases):
    first, second = weights(phases / "phase-1"), weights(phases / "phase-2")
    request = saved_request(load_run(phases / "phase-3").record)
    parts = assemble(request, lambda _: None, lambda: None)
    session = SimpleNamespace(model=parts.job.model(), parallel=Parallel())
    told = []
    start_weights(parts, session, told.append)
    begun = session.model.state_dict()
    assert not told
    adapters = [name for name in begun if "lora_" in name]
    assert adapters
    assert all(torch.equal(begun[name], first[name]) for name in adapters)
    assert all(torch.equal(begun[name], value) for name, value in second.items())


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_a_phase_resumes_bit_for_bit(phases, model, data, tmp_path, phase):
    whole = load_run(phases / f"phase-{phase}")
    config = [f"phase={phase}"]
    if phase == 3:
        config += [f"adapters_from={phases}/phase-1", f"router_from={phases}/phase-2"]
    part = {1: "training", 2: "router_training", 3: "joint_training"}[phase]
    own = [
        text.replace(f"{part}.", "training.")
        for text in settings(model, data)
        if (text.startswith(part) or "training." not in text) and "accumulation" not in text
    ]
    for key in ("training.learning_rate", "training.accumulation"):
        config.append(f"{key}={whole.record['config'][key]}")
    out = tmp_path / "half"
    request = fresh_request("task-router", [*own, *config, "training.max_time=0.01"])
    engine.train(request, out=out)
    halfway = load_run(out)
    assert halfway.record["status"] != "complete"
    while load_run(out).record["status"] != "complete":
        assert engine.resume(out).exit_code in (0, 75)
    assert [e["loss"] for e in load_run(out).evaluations] == [e["loss"] for e in whole.evaluations]
    again = weights(out)
    assert all(torch.equal(value, again[name]) for name, value in weights(whole.path).items())


def test_a_second_call_skips_what_is_finished(phases, model, data):
    request = fresh_request("task-router", settings(model, data))
    before = {path: path.stat().st_mtime_ns for path in phases.rglob("*.safetensors")}
    told = []
    results = dict(engine.train_series(request, out=phases, notify=told.append))
    assert [result.exit_code for result in results.values()] == [0, 0, 0]
    assert sum("is complete; nothing to do" in str(each) for each in told) == 3
    assert before == {path: path.stat().st_mtime_ns for path in phases.rglob("*.safetensors")}


def test_features_that_were_kept_are_checked(phases, model, data, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        feature_cache,
        "_compute_features",
        lambda trunk, rows, some: made.append(len(some)) or torch.zeros(len(some), 32).numpy(),
    )
    with pytest.raises(DataError, match="is not what the frozen model makes"):
        engine.train(
            fresh_request("task-router", settings(model, data, "phase=2")), out=tmp_path / "run"
        )
    assert made == [8]


def test_features_of_a_decoder_know_the_prompt_alone(phases, model, data):
    request = saved_request(load_run(phases / "phase-3").record)
    rows = assemble(request, lambda _: None, lambda: None).job.train
    router = load_run(phases / "phase-3").model("last")
    batch = rows.batch(0, 0, 6)
    before = router.features(dict(batch.tensors))
    changed = dict(batch.tensors)
    if router.heads is not None:
        assert before.shape[1] == router.backbone.width
        return
    answers = changed["labels"] != -100
    assert answers.any()
    changed["input_ids"] = torch.where(answers, 7, changed["input_ids"])
    assert before.shape[1] == 2 * router.backbone.width
    torch.testing.assert_close(router.features(changed), before)


def test_nothing_that_is_trained_may_stand_below_features(phases):
    parts = assemble(
        saved_request(load_run(phases / "phase-1").record), engine.silent, lambda: None
    )
    router, rows = parts.job.model(), parts.job.train
    feature_cache._refuse_trained(router, rows)
    next(router.backbone.parameters()).requires_grad_(True)
    with pytest.raises(ConfigError, match="something that is trained stands below"):
        feature_cache._refuse_trained(router, rows)


@pytest.mark.parametrize("phase", ["1", "2"])
def test_the_progress_line_has_the_loss_of_each_task(model, data, tmp_path, phase):
    told = []
    asked = settings(model, data, f"phase={phase}", "training.max_steps=8")
    request = fresh_request("task-router", asked)
    engine.train(request, out=tmp_path / "run", notify=told.append)
    parts = [message.parts for message in told if isinstance(message, Progress)]
    assert set().union(*parts) == {"sentiment", "questions"}
    assert all(loss > 0 for part in parts for loss in part.values())
    for message in told:
        is_progress = isinstance(message, Progress) and phase == "1"
        if is_progress and len(message.parts) == 1:  # a batch of one task
            assert [*message.parts.values()] == pytest.approx([message.loss], rel=1e-4)


def test_a_phase_alone_is_trained_as_it_is_among_the_others(model, data, phases):
    alone = fresh_request("task-router", ["phase=2", f"model.name={model}", f"data.path={data}"])
    own = alone.config.training
    assert (own.epochs, own.batch_size, own.learning_rate) == (10, 64, 2e-3)
    typed = fresh_request(
        "task-router",
        ["phase=2", f"model.name={model}", f"data.path={data}", "training.epochs=3"],
    )
    assert typed.config.training.epochs == 3
    with pytest.raises(UsageError, match="name one, as phase=1"):
        fresh_request("task-router", settings(model, data)).refuse_series()


def test_a_phase_made_by_other_code_is_not_gone_on_from(phases, model, data, tmp_path):
    record = json.loads((phases / "phase-1" / "run.json").read_text())
    assert record["code"] == code_version()
    other = tmp_path / "other"
    shutil.copytree(phases, other)
    (other / "phase-1" / "run.json").write_text(json.dumps({**record, "code": "0.0.1+abc"}))
    request = fresh_request("task-router", settings(model, data))
    with pytest.raises(ConfigError, match=r"run has 0\.0\.1\+abc"):
        dict(engine.train_series(request, out=other))


def test_a_validation_that_fails_loses_no_step(model, data, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("the metric is broken")

    monkeypatch.setattr("hotloop.engine.loop.evaluate", fails)
    request = fresh_request("task-router", settings(model, data, "phase=1"))
    with pytest.raises(RuntimeError, match="the metric is broken"):
        engine.train(request, out=tmp_path / "run")
    assert load_run(tmp_path / "run").checkpoint("last").step == 4
    monkeypatch.undo()
    assert engine.resume(tmp_path / "run").exit_code == 0
    assert load_run(tmp_path / "run").record["status"] == "complete"


@pytest.mark.parametrize("phase", ["all", "2", "3"])
def test_a_router_of_one_task_is_refused_before_anything_is_trained(model, data, tmp_path, phase):
    more = ["data.tasks=sentiment", f"phase={phase}"]
    if phase == "3":
        more += [f"adapters_from={tmp_path}", f"router_from={tmp_path}"]
    request = fresh_request("task-router", settings(model, data, *more))

    def train():
        if phase == "all":
            return list(engine.train_series(request, out=tmp_path / "out"))
        return engine.train(request, out=tmp_path / "out")

    with pytest.raises(ConfigError, match=r"between tasks.*sentiment: add rows.*with phase=1"):
        train()
    assert not (tmp_path / "out").exists()


def test_the_adapter_of_one_task_is_trained_alone(model, data, tmp_path):
    typed = settings(model, data, "data.tasks=sentiment", "phase=1", "training.max_steps=1")
    assert engine.train(fresh_request("task-router", typed), out=tmp_path / "out").exit_code == 0
