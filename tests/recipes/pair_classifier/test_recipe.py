"""pair-classifier from rows to predictions: what is said of it is what it does."""

import json
import shutil

import pytest
import torch
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer
from torch._subclasses.fake_tensor import FakeTensorMode

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.errors import ConfigError, DataError
from hotloop.jobs import job as assemble
from hotloop.jobs import train as engine
from hotloop.jobs.request import fresh_request
from hotloop.recipes.pair_classifier.recipe import _Loss

SIZE = {"vocab_size": 400, "num_hidden_layers": 2}
BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


def rows(count, first=0):
    """Return pairs whose label says whether both begin with the same word, and who wrote them."""
    made = []
    for at in range(first, first + count):
        one, other = WORDS[at % 9], WORDS[(at // 2) % 9]
        made.append(
            {
                "premise": f"{one} {at} {WORDS[at % 5]}",
                "hypothesis": f"{other} is what it is {'so ' * (at % 7)}",
                "label": "same" if one == other else "other",
                "author": f"author {at % 12}",
            }
        )
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return what makes the folder of a tiny model with a tokenizer."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            tiny_tokenizer.save(folder, bos=name == "bert")
            made[name] = tiny_models.saved(folder, name, **(BERT if name == "bert" else {}), **SIZE)
        return made[name]

    return make


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return jsonl(tmp_path_factory.mktemp("rows") / "rows.jsonl", rows(240))


def settings(folder, data, *more):
    own = [
        f"model.name={folder}",
        f"data.path={data}",
        "data.validation_share=0.2",
        "data.max_length=64",
        "training.batch_size=12",
        "training.accumulation=2",
        "training.epochs=null",
        "training.max_steps=6",
        "training.learning_rate=0.003",
        "training.eval_every_epochs=null",
        "training.eval_every_steps=3",
        "training.log_every=1",
        "training.precision=fp32",  # some CPUs have bf16: losses are compared
    ]
    keys = {text.partition("=")[0] for text in more}
    return [*(text for text in own if text.partition("=")[0] not in keys), *more]


def trained(out, *keys, **how):
    return engine.train(fresh_request("pair-classifier", list(keys)), out=out, **how)


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.slow), "qwen3"])
def test_layouts_and_micro_batches_train_the_same(model, data, tmp_path, name):
    changes = (
        (),
        ("data.layout=padded",),
        ("training.accumulation=1",),
        ("training.accumulation=12",),
    )
    losses = []
    for at, more in enumerate(changes):
        out = tmp_path / str(at)
        trained(out, *settings(model(name), data, *more))
        losses.append([step.loss for step in load_run(out).steps])
    assert len(losses[0]) == 6
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=2e-5)


@pytest.mark.parametrize("method", ["none", "dora"])
def test_a_stopped_run_goes_on_bit_for_bit(model, data, tmp_path, method):
    more = ("model.head_dropout=0.1", "training.max_steps=3", "training.eval_every_steps=2")
    keys = settings(model("qwen3"), data, f"adapter.method={method}", *more)
    trained(tmp_path / "whole", *keys)
    trained(tmp_path / "part", *keys, "training.max_time=0.001s")
    stops = 0
    while engine.resume(tmp_path / "part").exit_code:
        stops += 1
    assert stops
    whole, part = load_run(tmp_path / "whole"), load_run(tmp_path / "part")
    assert [s.loss for s in part.steps] == [s.loss for s in whole.steps]
    assert part.evaluations[-1]["figures"] == whole.evaluations[-1]["figures"]
    mine = part.model("last").state_dict()
    for name, tensor in whole.model("last").state_dict().items():
        assert torch.equal(mine[name], tensor), name


@pytest.fixture(scope="module")
def run(model, data, tmp_path_factory):
    """A run with LoRA, judged by groups, and the rows it was validated on as a file."""
    out = tmp_path_factory.mktemp("run") / "run"
    more = ("adapter.method=lora", "data.group=author", "training.max_steps=12")
    trained(out, *settings(model("bert"), data, *more))
    return load_run(out)


def test_rows_of_a_group_are_trained_on_or_validated_on(run):
    about = run.record["data"]
    assert about["classes"] == ["other", "same"]
    assert about["groups"] == [*sorted(f"author {at}" for at in range(12))]
    assert about["rows"]["train"] % 20 == about["rows"]["valid"] % 20 == 0  # 20 rows an author
    assert sum(about["rows"].values()) == 240


def test_the_scores_of_all_validated_groups_are_in_a_file(run):
    kept = json.loads((run.path / "groups.json").read_text())
    best = next(each for each in run.evaluations if each["step"] == kept["step"])
    assert best["best"]
    scores = kept["groups"]
    assert sum(each["rows"] for each in scores.values()) == run.record["data"]["rows"]["valid"]
    weakest = [value["macro_f1"] for value in scores.values()]
    assert weakest == sorted(weakest)
    for name, value in list(scores.items())[:5]:
        assert best["figures"][f"macro_f1 of {name}"] == value["macro_f1"]


def test_predictions_are_those_of_the_last_validation(run, data, tmp_path, capsys):
    found = run.predict(data, which="last")
    told = [json.loads(line) for line in data.read_text().splitlines()]
    held = run.evaluations[-1]["figures"]
    validated = {
        name.removeprefix("macro_f1 of ")
        for name, value in held.items()
        if name.startswith("macro_f1 of ") and value is not None
    }
    of_valid = [at for at, row in enumerate(told) if row["author"] in validated]
    right = [list(found.rows())[at]["label"] == told[at]["label"] for at in of_valid]
    assert sum(right) / len(right) == pytest.approx(held["accuracy"])
    shares = [sum(row["probabilities"].values()) for row in found.rows()]
    assert shares == pytest.approx([1.0] * 240)
    assert found.report.whole.rows == 240
    assert set(found.report.groups) == {f"author {at}" for at in range(12)}
    out, scores = tmp_path / "p.jsonl", tmp_path / "scores.json"
    argv = ["predict", str(run.path), str(data), "--checkpoint", "last"]
    assert main([*argv, "--out", str(out), "--json", str(scores)]) == 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == list(found.rows())
    assert json.loads(scores.read_text()) == json.loads(json.dumps(found.report.to_json()))
    assert "true \\ predicted" in capsys.readouterr().out


def test_rows_whose_labels_are_all_empty_are_rows_without_labels(run, data, tmp_path):
    told = [json.loads(line) for line in data.read_text().splitlines()][:10]
    path = jsonl(tmp_path / "test.jsonl", [{**row, "label": None} for row in told])
    found = run.predict(path)
    assert len(list(found.rows())) == 10
    assert found.report is None


def test_columns_by_position_are_predicted_as_they_were_trained(model, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"good {n},{'yes' if n % 2 else 'no'}\n" for n in range(40)))
    more = ("data.text_a=0", "data.label=1", "data.text_b=null", "training.max_steps=2")
    out = tmp_path / "run"
    trained(out, *settings(model("bert"), path, *more))
    found = load_run(out).predict(path)
    assert found.report.whole.rows == 40


def test_what_must_be_beaten_stands_beside_the_scores(run, data, tmp_path, capsys):
    path = jsonl(tmp_path / "new.jsonl", rows(60, first=1000))
    scores = tmp_path / "scores.json"
    argv = ["predict", str(run.path), str(path), "--baselines", "--json", str(scores)]
    assert main([*argv, "--out", str(tmp_path / "p.jsonl")]) == 0
    said, told = capsys.readouterr().out, json.loads(scores.read_text())["baselines"]
    labels = [row["label"] for row in rows(60, first=1000)]
    majority = labels.count("other") / 60  # of the training rows 8 in 9 are other
    assert told["majority class"]["accuracy"] == pytest.approx(majority)
    assert f"majority class                   accuracy {majority:.4f}" in said
    assert told["bag of words"]["rows"] == 60
    beat = run.record["facts"]["to beat"]
    assert beat.startswith("accuracy (macro F1) on the validation rows, learned of ")
    assert "bag of words, second text only" in beat


def test_rows_without_labels_are_predicted_and_not_scored(run, tmp_path, capsys):
    path = jsonl(tmp_path / "new.jsonl", [{k: r[k] for k in r if k[0] in "ph"} for r in rows(5)])
    assert main(["predict", str(run.path), str(path)]) == 0
    said = capsys.readouterr()
    assert [set(json.loads(line)) for line in said.out.splitlines()] == [
        {"label", "probabilities"}
    ] * 5
    assert "there is nothing to score" in said.err


def test_attention_dropout_is_what_was_asked_for(model, data):
    from hotloop.recipes.pair_classifier.recipe import rebuilt

    kept = {"classes.json": json.dumps({"classes": ["a", "b"], "groups": [], "model": "none"})}
    for asked, has in (("null", 0.0), ("0.25", 0.25)):
        config = fresh_request(
            "pair-classifier", settings(model("bert"), data, f"model.attention_dropout={asked}")
        ).config
        built = rebuilt(config, kept).backbone.model
        assert {
            each.dropout.p for name, each in built.named_modules() if name.endswith("self")
        } == {has}


def test_auto_pads_what_is_of_like_length_and_no_other(model, tmp_path):
    for name, short, layout in (("like", 43, "padded"), ("unlike", 3, "flat")):  # 43 are cut off
        texts = ["the fox " * (43 if at % 3 else short) for at in range(40)]
        made = [{"text": text, "label": at % 2} for at, text in enumerate(texts)]
        path = jsonl(tmp_path / f"{name}.jsonl", made)
        more = ("data.layout=auto", "training.batch_size=20", "training.accumulation=1")
        request = fresh_request(
            "pair-classifier",
            [*settings(model("bert"), path, "data.max_length=64", "data.text_b=null", *more)],
        )
        data = assemble.prepare_data(request, engine.silent, None)
        job = request.recipe.load().build(request.config, data)
        assert (job.train.form.layout, job.valid.form.layout) == (layout, layout)


def test_widths_of_padded_rows_are_multiples_of_what_is_asked_for(model, data):
    from hotloop.recipes.pair_classifier.config import idle_pair_classifier

    more = ("data.layout=padded", "data.pad_to_multiple_of=5")
    request = fresh_request("pair-classifier", settings(model("bert"), data, *more))
    rows = assemble.prepare_data(request, engine.silent, None)
    train = request.recipe.load().build(request.config, rows).train
    longest = int(train.lengths[train.ids(0, 0, 12)].max())
    width = train.batch(0, 0, 12).tensors["input_ids"].shape[1]
    assert (width % 5, width - longest < 5) == (0, True)
    assert not idle_pair_classifier(request.config, request.origins)
    flat = fresh_request("pair-classifier", settings(model("bert"), data, "data.layout=flat"))
    assert not idle_pair_classifier(flat.config, flat.origins)  # of the preset: nobody asked
    both = fresh_request(
        "pair-classifier", settings(model("bert"), data, "data.layout=flat", more[1])
    )
    told = idle_pair_classifier(both.config, both.origins)
    assert "rows are not padded" in told["data.pad_to_multiple_of"]


def test_presets_are_those_of_char_lm_and_grow_with_the_gpu():
    from hotloop.core.hardware import Hardware
    from hotloop.recipes.registry import RECIPES

    gpu = Hardware(device="cuda", name="gpu", memory_bytes=24 << 30)
    cpu = Hardware(device="cpu", name="CPU")
    for name in ("pair-classifier", "chat-sft", "expert-sft"):
        auto = RECIPES[name].auto
        assert auto(cpu).values["data.layout"] == "auto"
        assert auto(cpu).values["data.pad_to_multiple_of"] == 1
        assert "data.layout" not in auto(gpu).values  # flat is the default
        sizes = [
            auto(Hardware(device="cuda", name="gpu", memory_bytes=gib << 30)).values
            for gib in (6, 12, 16, 24, 80)
        ]
        micro = [v["training.batch_size"] // v.get("training.accumulation", 1) for v in sizes]
        assert micro == sorted(micro)
        assert len(set(micro)) >= 3
        assert set(RECIPES["char-lm"].resolve.presets) == set(RECIPES[name].resolve.presets)


def test_what_a_run_of_labels_cannot_do_says_what_can(run, capsys):
    assert main(["sample", str(run.path)]) == 2
    assert "writes no text: hotloop predict" in capsys.readouterr().err


def test_a_checkpoint_holds_what_is_learned_and_no_more(run):
    from safetensors import safe_open

    stored = run.checkpoint("last")
    with safe_open(stored.path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert all("lora_" in name or name.startswith("head.") for name in names)
    assert len(names) > 10


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_decoder_looks_ahead_only_if_it_is_told_to(model, data, tmp_path, bidirectional):
    word = str(bidirectional).lower()
    trained(tmp_path / "run", *settings(model("gemma3"), data, f"model.bidirectional={word}"))
    from hotloop.models.attention_proofs import sees_ahead

    assert sees_ahead(load_run(tmp_path / "run").model("last").backbone) == bidirectional


def test_class_weights_add_up_over_micro_batches(model, data, tmp_path):
    for at, micro in enumerate((1, 12)):
        more = ("class_weights=balanced", f"training.accumulation={micro}")
        trained(tmp_path / str(at), *settings(model("bert"), data, *more))
    losses = [[s.loss for s in load_run(tmp_path / str(at)).steps] for at in (0, 1)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)
    trained(tmp_path / "plain", *settings(model("bert"), data))
    assert [s.loss for s in load_run(tmp_path / "plain").steps] != pytest.approx(
        losses[0], rel=1e-3
    )


def test_class_weights_that_a_validation_used_first_serve_the_training():
    loss, labels = _Loss(weights=(3.0, 0.5)), torch.tensor([0, 1, 1])
    logits = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]], requires_grad=True)
    with FakeTensorMode() as mode:  # a forecast comes before both
        fake = mode.from_tensor(torch.ones(3, 2)), mode.from_tensor(labels)
        loss(lambda batch: fake[0], {"label": fake[1]})
    with torch.inference_mode():
        validated = loss(lambda batch: logits, {"label": labels})
    trained = loss(lambda batch: logits, {"label": labels})
    trained.backward()
    by_hand = -(logits.detach().log_softmax(1)[torch.arange(3), labels] * weights_of(labels)).mean()
    assert float(validated) == pytest.approx(float(by_hand))
    assert float(trained.detach()) == pytest.approx(float(by_hand))
    assert bool(logits.grad.any(1).all())


def weights_of(labels):
    return torch.tensor([3.0, 0.5])[labels]


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        (["metric=f2"], ConfigError, "metric"),
        (["data.max_length=65"], ConfigError, "has 64 positions: data.max_length=64"),
        (["data.label=stars"], DataError, "stars"),
        (["data.group=nobody"], DataError, "nobody"),
        (["adapter.method=lora", "adapter.targets=q_proj"], ConfigError, "q_proj"),
        (["training.warmup_steps=2", "training.warmup_share=0.1"], ConfigError, "leave one out"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_made(
    model, data, tmp_path, more, error, said
):
    with pytest.raises(error, match=said):
        trained(tmp_path / "run", *settings(model("bert"), data, *more))
    assert not (tmp_path / "run").exists()


def test_a_label_that_training_never_had_is_told_with_its_row(model, data, tmp_path):
    other = jsonl(tmp_path / "valid.jsonl", [{**row, "label": "new"} for row in rows(3)])
    with pytest.raises(DataError, match="'new', not one of 'other', 'same'"):
        trained(tmp_path / "run", *settings(model("bert"), data, f"data.valid_path={other}"))


def test_the_command_of_the_project_behind_it_works(model, data, tmp_path, capsys):
    keys = settings(model("bert"), data, "training.batch_size=10", "training.accumulation=1")
    typed = ["model.use_torch_compile=false", "data.num_workers=10", "experiment=quick_test"]
    out = tmp_path / "run"
    assert main(["train", "pair-classifier", *keys, *typed, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "data.num_workers=10 (command line) has no effect" in " ".join(said.err.split())
    assert load_run(out).config.training.batch_size == 10


def test_a_pretrained_folder_that_was_changed_is_noticed(model, data, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model("qwen3"), folder)
    out = tmp_path / "run"
    trained(out, *settings(folder, data, "adapter.method=lora", "training.max_time=0.001s"))
    tiny_models.saved(folder, "qwen3", **SIZE, seed=1)
    with pytest.raises(ConfigError, match="objective"):
        engine.resume(out)
    with pytest.raises(DataError, match="was changed since the run"):
        load_run(out).model("last")


def test_the_doctor_looks_at_the_rows_before_a_run(model, data, tmp_path, capsys):
    keys = settings(model("bert"), data)
    assert main(
        ["doctor", "pair-classifier", *keys, "--steps", "4", "--out", str(tmp_path / "run")]
    ) in (0, 1)
    said = " ".join(capsys.readouterr().out.split())
    assert "a validation reads 48 rows: its accuracy is known to about 7.2 points" in said


def test_each_row_is_held_out_in_one_fold(model, data, tmp_path, capsys):
    keys = [k for k in settings(model("bert"), data) if "validation_share" not in k]
    argv = ["train", "-q", "pair-classifier", *keys, "cv.folds=3", "--out", str(tmp_path / "cv")]
    assert main(argv) == 0
    said = capsys.readouterr().err
    runs = [load_run(tmp_path / "cv" / f"fold-{at}") for at in (1, 2, 3)]
    assert [run.record["data"]["rows"]["valid"] for run in runs] == [80, 80, 80]
    assert len({run.record["data"]["fingerprint"] for run in runs}) == 3
    best = [max(e["figures"]["macro_f1"] for e in run.evaluations) for run in runs]
    assert f"macro_f1 of 3 folds: mean {sum(best) / 3:.4f}, standard deviation" in said
    assert main([*argv, "--json", str(tmp_path / "again.json")]) == 0
    assert {*json.loads((tmp_path / "again.json").read_text())["runs"]} == {
        "fold-1",
        "fold-2",
        "fold-3",
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["cv.fold=1"], "needs cv.folds"),
        (["cv.folds=3", "cv.fold=4"], "needs cv.folds, of which it is one"),
        (["cv.folds=3", "data.valid_path=x.jsonl"], "folds are of the rows of data.path"),
    ],
)
def test_folds_that_cannot_be_are_refused(model, data, more, said):
    with pytest.raises(ConfigError, match=said):
        fresh_request("pair-classifier", settings(model("bert"), data, *more))


def test_what_never_learns_ends_the_run(model, data, tmp_path):
    """The first token of a decoder sees itself alone: queries and keys change nothing."""
    keys = settings(model("qwen3"), data, "model.pooling=cls")
    with pytest.raises(ConfigError, match=r"no gradient in the first 3 steps.*self_attn\.q_proj"):
        trained(tmp_path / "run", *keys)
    ahead = settings(model("qwen3"), data, "model.pooling=cls", "model.bidirectional=true")
    assert trained(tmp_path / "ahead", *ahead).exit_code == 0


def notes_of(out):
    events = (json.loads(line) for line in (out / "events-r0.jsonl").read_text().splitlines())
    return [event["text"] for event in events if event["kind"] == "note"]


def test_a_model_that_does_no_better_than_counting_words_is_told_at_the_end(model, tmp_path):
    """The label is a word of the text, which counting words finds, and 6 steps do not."""
    made = [
        {"text": f"{WORDS[at % 5]} {'good' if at % 2 else 'bad'} {at}", "label": f"is {at % 2}"}
        for at in range(240)
    ]
    data = jsonl(tmp_path / "rows.jsonl", made)
    quiet = ("training.learning_rate=1e-7", "training.max_steps=6")
    trained(tmp_path / "run", *settings(model("bert"), data, *quiet))
    (cost,) = [text for text in notes_of(tmp_path / "run") if "a baseline" in text]
    assert cost.startswith("macro_f1 of the best validation is 0.")
    assert ", and a baseline (bag of words) reaches 1.000 on 48 validation rows: the" in cost


def test_a_class_that_is_never_predicted_is_told_at_the_end(model, data):
    request = fresh_request("pair-classifier", settings(model("bert"), data))
    judge = assemble.assemble(request, lambda message: None, lambda: None).job.judge
    judge.figures(torch.tensor([[[40, 0], [8, 0]]]))
    (said,) = judge.closing(1.0)
    assert said.startswith("the last validation never predicts same (8 rows)")
    judge.figures(torch.tensor([[[48, 0], [0, 0]]]))  # no row has that label
    assert judge.closing(1.0) == []
