"""chat-sft and expert-sft from rows to answers: what is said of them is what they do."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.api import FEW, load_run
from hotloop.cli.main import main
from hotloop.core.errors import ConfigError, DataError, UsageError
from hotloop.core.hardware import Hardware
from hotloop.jobs import train
from hotloop.jobs.request import expert_requests, fresh_request

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
SIZE = {"vocab_size": 400, "num_hidden_layers": 2}


def questions(count):
    """Return questions whose answer is their own last word, three times, of different lengths."""
    return [
        {
            "question": f"{at} {WORDS[at % 9]} {WORDS[at // 9 % 9]}" + " so" * (at % 5),
            "answer": word,
        }
        for at in range(count)
        for word in (f"{WORDS[at // 9 % 9]} " * 3,)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return what makes the folder of a tiny model with a tokenizer."""
    made = {}

    def make(name, **more):
        key = f"{name} {more}"
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            tiny_tokenizer.save(folder)
            made[key] = tiny_models.saved(folder, name, **{**SIZE, **more})
        return made[key]

    return make


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return jsonl(tmp_path_factory.mktemp("rows") / "rows.jsonl", questions(60))


def settings(folder, data, *more):
    own = [
        f"model.name={folder}",
        f"data.path={data}",
        "data.validation_share=0.2",
        "data.max_length=48",
        "adapter.rank=4",
        "training.batch_size=8",
        "training.accumulation=2",
        "training.epochs=null",
        "training.max_steps=5",
        "training.learning_rate=0.003",
        "training.eval_every_epochs=null",
        "training.eval_every_steps=5",
        "training.log_every=1",
        "training.precision=fp32",  # some CPUs have bf16: losses are compared
    ]
    keys = {text.partition("=")[0] for text in more}
    return [*(text for text in own if text.partition("=")[0] not in keys), *more]


def trained(out, *keys, recipe="chat-sft"):
    train.train(fresh_request(recipe, list(keys)), out=out)
    return load_run(out)


def losses(run):
    return [step.loss for step in run.steps]


@pytest.mark.parametrize("name", ["qwen3", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_every_way_to_feed_and_to_compute_trains_the_same(model, data, tmp_path, name):
    ways = [
        (),
        ("data.layout=padded",),
        ("training.accumulation=1",),
        ("training.accumulation=8",),
        ("model.cross_entropy=fused",),
        ("model.attention=naive",),
        ("model.checkpointing=full",),
    ]
    found = [
        losses(trained(tmp_path / str(at), *settings(model(name), data, *way)))
        for at, way in enumerate(ways)
    ]
    assert len(found[0]) == 5
    for way, other in zip(ways[1:], found[1:], strict=True):
        assert other == pytest.approx(found[0], rel=3e-5), way


def test_only_answers_carry_loss_and_their_end_is_learned(model, data, tmp_path):
    run = trained(tmp_path / "run", *settings(model("qwen3"), data, "training.batch_size=48"))
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    per_row = run.steps[0].tokens and {step.targets for step in run.steps}
    made = tiny_tokenizer.tokenizer()
    lengths = sorted(len(made.encode(row["answer"]).ids) + 1 for row in rows)  # with EOS
    assert sum(lengths[:48]) <= max(per_row) <= sum(lengths[-48:])
    whole = trained(
        tmp_path / "all", *settings(model("qwen3"), data, "training.batch_size=48", "data.loss=all")
    )
    assert whole.steps[0].targets > 1.5 * run.steps[0].targets


@pytest.mark.parametrize(
    "more",
    [
        ("adapter.method=none", "training.optim=adafactor"),
        (
            "adapter.method=dora",
            "data.packing=true",
            "training.batch_size=2",
            "adapter.dropout=0.1",
        ),
        ("adapter.method=lora", "training.optim=adamw_8bit", "adapter.rank=1024"),
        ("adapter.method=lora", "adapter.quantization=nf4"),
    ],
    ids=["full", "dora", "8bit", "qlora"],
)
def test_a_stopped_run_goes_on_bit_for_bit(model, data, tmp_path, more):
    blocks = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 16}  # of 64, as NF4 has them
    keys = settings(
        model("qwen3", **blocks), data, "training.max_steps=3", "training.eval_every_steps=1"
    )
    given = {text.partition("=")[0] for text in more}
    keys = [*(text for text in keys if text.partition("=")[0] not in given), *more]
    whole = trained(tmp_path / "whole", *keys)
    trained(tmp_path / "part", *keys, "training.max_time=0.001s")
    stops = 0
    while train.resume(tmp_path / "part").exit_code:
        stops += 1
    part = load_run(tmp_path / "part")
    assert stops
    assert losses(part) == losses(whole)
    mine = part.model("last").state_dict()
    for name, tensor in whole.model("last").state_dict().items():
        assert torch.equal(mine[name], tensor), name


def test_a_model_that_has_learned_its_rows_answers_with_them(model, tmp_path, capsys):
    few = jsonl(tmp_path / "few.jsonl", questions(10))
    more = ("adapter.method=none", "training.max_steps=60", "training.eval_every_steps=20")
    deep = model("qwen3", num_hidden_layers=3)
    keys = settings(deep, few, *more, f"data.valid_path={few}")
    run = trained(tmp_path / "run", *keys)
    last = run.evaluations[-1]["figures"]
    assert last["answers_right"] == 1
    assert last["token_accuracy"] == 1
    assert last["answers_changed"] == 0
    row = questions(10)[7]
    assert main(["sample", str(run.path), "--prompt", row["question"], "--checkpoint", "last"]) == 0
    assert capsys.readouterr().out.strip() == row["answer"].strip()
    with pytest.raises(UsageError, match="what is to be answered"):
        run.sample()
    with pytest.raises(UsageError, match="suffix"):
        run.sample(prompt="a", suffix="b")


def test_of_two_held_out_rows_the_last_model_answers_and_which_one_is_said(model, tmp_path, capsys):
    few = jsonl(tmp_path / "few.jsonl", questions(10))
    held = jsonl(tmp_path / "held.jsonl", [{**questions(10)[0], "answer": "none"}] * 2)
    more = ("adapter.method=none", "training.max_steps=60", "training.eval_every_steps=5")
    keys = settings(model("qwen3"), few, *more, f"data.valid_path={held}")
    run = trained(tmp_path / "run", *keys)
    best = run.record["final"]["best_step"]
    assert best < 60, "the rows that are held out have nothing to do with those that are learned"
    row = questions(10)[7]
    assert main(["sample", str(run.path), "--prompt", row["question"]]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == row["answer"].strip()
    assert "the last checkpoint, of step 60 (2 held-out samples cannot tell" in told.err
    assert f"of step {best}; --checkpoint best" in told.err
    assert main(["sample", str(run.path), "--prompt", "a", "--checkpoint", "best"]) == 0
    assert f"this is the best checkpoint, of step {best}\n" in capsys.readouterr().err
    assert run.checkpoint().step == 60
    many = {**run.record, "validation_samples": FEW}
    assert replace(run, record=many).checkpoint().step == best


def test_chats_are_asked_by_their_template(model, tmp_path):
    chats = [
        {
            "messages": [
                {"role": "user", "content": row["question"]},
                {"role": "assistant", "content": row["answer"]},
            ]
        }
        for row in questions(6)
    ]
    file = jsonl(tmp_path / "chats.jsonl", chats)
    more = ("adapter.method=none", "training.max_steps=60", "training.eval_every_steps=60")
    more += ("data.max_length=96", "training.batch_size=6", f"data.valid_path={file}")
    longer = model("qwen3", max_position_embeddings=128)
    run = trained(tmp_path / "run", *settings(longer, file, *more))
    assert run.evaluations[-1]["figures"]["answers_right"] == 1
    asked = chats[4]["messages"]
    assert run.sample(prompt=asked[0]["content"], which="last") == [asked[1]["content"].strip()]


def test_questions_in_a_template_are_asked_by_it(model, tmp_path):
    file = jsonl(tmp_path / "rows.jsonl", questions(6))
    more = ("adapter.method=none", "training.max_steps=60", "training.eval_every_steps=60")
    more += ("data.max_length=96", "training.batch_size=6", f"data.valid_path={file}")
    longer = model("qwen3", max_position_embeddings=128)
    run = trained(tmp_path / "run", *settings(longer, file, *more, "data.template=chatml"))
    asked = questions(6)[4]
    assert run.sample(prompt=asked["question"], which="last") == [asked["answer"].strip()]


def test_texts_that_are_chats_learn_their_answers_if_asked_to(model, tmp_path):
    turn = "<|im_start|>{}\n{}<|im_end|>\n"
    rows = [
        {"text": turn.format("user", row["question"]) + turn.format("assistant", row["answer"])}
        for row in questions(20)
    ]
    file = jsonl(tmp_path / "rows.jsonl", rows)
    longer, more = model("qwen3", max_position_embeddings=128), ("data.max_length=96",)
    notes = []
    for loss, count in (("auto", 0), ("answers", 1)):
        request = fresh_request("chat-sft", settings(longer, file, f"data.loss={loss}", *more))
        data = request.recipe.load().prepare_data(request.config, cache=tmp_path / "cache")
        assert (data.store.identity["loss"] == "completion") == count
        notes.append(" ".join(data.notes))
    assert "chats in ChatML's marks: data.loss=answers learns the answers" in notes[0]
    assert "«" in notes[1]
    more += ("adapter.method=none", "training.max_steps=60", "training.eval_every_steps=60")
    more += (f"data.valid_path={file}", "training.batch_size=20", "data.loss=answers")
    run = trained(tmp_path / "run", *settings(longer, file, *more))
    asked = questions(20)[4]
    assert run.sample(prompt=asked["question"], which="last") == [asked["answer"].strip()]


def test_a_part_of_an_epoch_is_counted_in_steps(model, data, tmp_path):
    more = ("training.epochs=1.5", "training.max_steps=null", "training.eval_every_steps=9")
    run = trained(tmp_path / "run", *settings(model("qwen3"), data, *more))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["config"]["training.epochs"] == 1.5
    assert record["steps"] == 9  # of 48 rows by 8, six steps an epoch
    assert run.evaluations[-1]["step"] == 9


def test_the_trained_set_is_what_the_settings_mean(model, data, tmp_path):
    run = trained(
        tmp_path / "run", *settings(model("qwen3"), data, "adapter.targets=q_proj,v_proj")
    )
    learned = {name for name, p in run.model("last").named_parameters() if p.requires_grad}
    assert learned
    assert all(name.split(".")[-2] in ("q_proj", "v_proj") for name in learned)
    assert "adapters" in run.record["facts"]["trains"]
    saved = run.checkpoint("last").path / "model.safetensors"
    assert saved.stat().st_size < 60_000  # adapters alone


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([{"question": "a", "answer": ""}] * 3, (), "key 'answer' is empty"),
        ([{"question": "a", "answer": 3}] * 3, (), "must hold text"),
        ([{"query": "a", "reply": "b"}] * 3, (), "none of which is usually trained on"),
        ([{"question": "a b c " * 40, "answer": "d"}] * 4, (), "carries loss"),
        ([{"question": "a", "answer": "b"}], (), "at least 2 are needed"),
        (questions(4), ("data.max_length=4096",), "64 positions"),
        ([{"text": "a b c"}] * 4, ("data.loss=answers",), "rows of shape text have none"),
    ],
)
def test_rows_that_cannot_be_used_are_told_before_a_run(model, tmp_path, rows, more, said):
    file = jsonl(tmp_path / "bad.jsonl", rows)
    with pytest.raises((DataError, ConfigError), match=said):
        trained(tmp_path / "run", *settings(model("qwen3"), file, *more))
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_of_another_model_is_told(model, data, tmp_path):
    folder = tmp_path / "small"
    tiny_tokenizer.save(folder)
    tiny_models.saved(folder, "qwen3", vocab_size=200)
    with pytest.raises(DataError, match="the model has only 200 embeddings"):
        trained(tmp_path / "run", *settings(folder, data))


def test_a_base_that_was_changed_is_noticed(model, data, tmp_path):
    folder = tmp_path / "base"
    shutil.copytree(model("qwen3"), folder)
    run = trained(tmp_path / "run", *settings(folder, data))
    tiny_models.saved(folder, "qwen3", **SIZE, seed=1)
    with pytest.raises(DataError, match="was changed since the run"):
        run.model("last")


# expert-sft


def manifest(folder, rows, name, **more):
    usual = {
        "name": name,
        "model": str(folder),
        "data": str(rows),
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_length": 64,
        "adapter_type": "lora",
        "rank": 4,
        "max_steps": 3,
        "eval_steps": 3,
    }
    path = rows.parent / f"{name}.json"
    path.write_text(json.dumps({**usual, **more}))
    return path


def test_a_failed_expert_does_not_stop_the_next_and_the_worst_code_is_returned(
    model, data, tmp_path, capsys
):
    files = [
        manifest(model("qwen3"), data, "lost", data=str(tmp_path / "none.jsonl")),
        manifest(model("qwen3"), data, "first", bf16=False, use_tf32=False),
        manifest(model("qwen3"), data, "second", group_by_length=True, adapter_type="dora"),
    ]
    argv = ["train", "expert-sft", f"manifest={','.join(map(str, files))}"]
    argv += [f"output={tmp_path}/{{model}}", "seed=3", "--json", str(tmp_path / "all.json")]
    assert main(argv) == 65
    told = capsys.readouterr()
    assert told.out.splitlines() == [str(tmp_path / "first"), str(tmp_path / "second")]
    assert "2 of 3 experts are trained" in told.err
    runs = json.loads((tmp_path / "all.json").read_text())["runs"]
    assert {name: run["exit_code"] for name, run in runs.items()} == {
        "lost": 65,
        "first": 0,
        "second": 0,
    }
    first, second = load_run(tmp_path / "first"), load_run(tmp_path / "second")
    assert first.config.data.packing
    assert not second.config.data.packing
    assert second.config.adapter.method == "dora"
    assert first.config.seed == second.config.seed == 3
    assert any("batch_size=2: in effect" in line for line in first.record["manifest"])
    # again: what is finished is left alone
    assert main(argv) == 65
    assert load_run(tmp_path / "first").record["created"] == first.record["created"]


def test_sections_short_form_and_axolotls_file_train_the_same_weights(model, tmp_path):
    rows = jsonl(tmp_path / "rows.jsonl", questions(40))
    adapter = {"type": "lora", "r": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    data = {"path": "other.jsonl", "field_mapping": {"prompt": "question", "response": "answer"}}
    config = {
        "epochs": 1.5,
        "learning_rate": 0.003,
        "batch_size": 4,
        "max_seq_length": 48,
        "gradient_accumulation_steps": 2,
        "bf16": False,
        "fp16": False,
        "packing": False,
        "warmup_ratio": 0.1,
        "lr_scheduler": "cosine",
        "weight_decay": 0.0,
        "rank": 4,
        "gradient_checkpointing": False,
        "optim": "adamw_torch",
        "seed": 42,
    }
    base = [{"name": "C:/models/x", "prompt_template": "chatml", "adapters": [adapter]}]
    sections = {"base_models": base, "training": {"dataset": data, "config": config}}
    (tmp_path / "sections.json").write_text(json.dumps(sections))
    axolotl = {
        "base_model": "C:/models/x",
        "adapter": "lora",
        "lora_r": 4,
        "lora_alpha": 8,
        "lora_target_modules": ["q_proj", "v_proj"],
        "chat_template": "chatml",
        "val_set_size": 0.1,
        "sequence_len": 48,
        "micro_batch_size": 4,
        "num_epochs": 1.5,
        "gradient_accumulation_steps": 2,
        "learning_rate": 0.003,
        "warmup_ratio": 0.1,
        "lr_scheduler": "cosine",
        "optimizer": "adamw_torch",
        "bf16": False,
        "fp16": False,
        "datasets": [
            {
                "path": "owner/rows",
                "type": "chat_template",
                "field_instruction": None,
                "field_prompt": "question",
                "field_completion": "answer",
            }
        ],
    }
    (tmp_path / "axolotl.yml").write_text(json.dumps(axolotl))  # JSON is YAML
    typed = [f"model.path={model('qwen3')}", f"data.path={rows}"]
    first = ["train", "expert-sft", f"manifest={tmp_path / 'sections.json'}", *typed]
    assert main([*first, "--check", "--to-flat", str(tmp_path / "short.json")]) == 0
    weights = []
    for name in ("sections.json", "short.json", "axolotl.yml"):
        out = tmp_path / f"run-{name}"
        run = trained(out, f"manifest={tmp_path / name}", *typed, recipe="expert-sft")
        last = max((out / "checkpoints").glob("step-*"))
        assert run.evaluations[-1]["step"] == int(last.name.removeprefix("step-"))
        weights.append((last / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] == weights[2]


def test_experts_never_share_a_folder(model, data, tmp_path):
    files = [manifest(model("qwen3"), data, name) for name in ("one", "two")]
    with pytest.raises(ConfigError, match="would share the folder"):
        expert_requests("expert-sft", [f"manifest={files[0]},{files[1]}", f"output={tmp_path}/x"])
    both = expert_requests("expert-sft", [f"manifest={files[0]},{files[1]}"])
    with pytest.raises(UsageError, match="where to"):
        next(train.train_experts(both, out=None))


def test_the_cache_of_a_manifest_is_used_and_another_is_said_to_cost(model, data, tmp_path, capsys):
    cache = "made/{expert-name}/tokens"
    file = manifest(model("qwen3"), data, "cached", pretokenized_cache=cache)
    assert main(["data", "tokenize", "--manifest", str(file), "-q"]) == 0
    made = data.parent / "made" / "cached" / "tokens"
    assert capsys.readouterr().out.strip() == str(made)
    run = trained(tmp_path / "run", f"manifest={file}", recipe="expert-sft")
    assert run.record["data"]["tokens"] == str(made)
    other = manifest(model("qwen3"), data, "cached", pretokenized_cache=cache, max_seq_length=32)
    capsys.readouterr()
    assert main(["train", "expert-sft", f"manifest={other}", "--out", str(tmp_path / "on")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "length: 64, not 32" in said
    assert "Tokenised on the fly, which took" in said
    assert load_run(tmp_path / "on").record["data"]["tokens"] != str(made)


def test_the_manifest_of_the_project_behind_it_is_answered_field_by_field(
    model, data, tmp_path, capsys
):
    theirs = {
        "batch_size": 16,
        "gradient_accumulation_steps": 4,
        "max_seq_length": 2048,
        "dataloader_num_workers": 8,
        "dataloader_prefetch_factor": 8,
        "dataloader_persistent_workers": True,
        "fp16": False,
        "bf16": True,
        "use_tf32": True,
        "use_sdpa": True,
        "optim": "adamw_torch_fused",
        "group_by_length": True,
        "gradient_checkpointing": False,
        "pretokenized_cache": "datasets_optimized/{expert-name}/tokenized",
    }
    path = data.parent / "theirs.json"
    path.write_text(json.dumps(theirs, indent=1))
    typed = [f"manifest={path}", f"model.name={model('qwen3')}", f"data.path={data}"]
    request = fresh_request("expert-sft", [*typed, "data.max_length=64", "training.max_steps=1"])
    assert {answer.item.key for answer in request.answers} == theirs.keys()
    assert request.config.training.batch_size == 64
    assert request.config.data.cache == str(data.parent / "datasets_optimized/theirs/tokenized")
    assert request.config.data.group_by_length
    capsys.readouterr()
    short = ["data.max_length=64", "training.batch_size=4", "training.epochs=null"]
    argv = ["train", "expert-sft", *typed, *short, "training.max_steps=1"]
    assert main([*argv, "--out", str(tmp_path / "run")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    for key in theirs:
        assert f"{key}=" in said, key
    assert "use_tf32): refused: TF32 is a format of CUDA tensor cores" in said


@pytest.fixture
def with_bf16(monkeypatch):
    """Take away the gate of bfloat16, which many CPUs only emulate."""
    monkeypatch.setattr(Hardware, "why_no_bf16", lambda self: None)


def rows_of(run):
    made = json.loads((run.path / "run.json").read_text())
    return {row["technique"]: row for row in made["effects"]}


@pytest.mark.parametrize("quantization", ["none", "nf4"])
def test_frozen_weights_are_stored_in_16_bits_by_themselves(
    model, data, tmp_path, with_bf16, quantization
):
    """Losses are the same without it, bit for bit."""
    folder = model("qwen3", hidden_size=64, intermediate_size=128, head_dim=16)
    keys = settings(folder, data, "training.precision=auto", "training.max_steps=3")
    keys += ["adapter.method=lora", f"adapter.quantization={quantization}"]
    low = trained(tmp_path / "low", *keys, recipe="expert-sft")
    request = fresh_request("expert-sft", keys, removed=["frozen-16bit"])
    train.train(request, out=tmp_path / "whole")
    whole = load_run(tmp_path / "whole")
    assert losses(low) == losses(whole)
    assert "frozen-16bit" not in rows_of(whole)
    row = rows_of(low)["frozen-16bit"]
    if quantization == "nf4":  # a tied head in float32 is all that is left
        assert row["word"] == "not needed here"
    else:
        assert (row["word"], row["origin"]) == ("in effect", "auto")
        assert row["how"].startswith("14 frozen weights in bfloat16")
