"""Documents in one row get what each gets alone, in transformers' models, to rounding and exactly.

What is compared with is transformers' own sdpa, each document by itself.
"""

from types import SimpleNamespace

import pytest
import torch
from tests.golden.tiny_models import (
    CONFIGS,
    DECODERS,
    LAYERS,
    WINDOW,
    documents,
    isolation,
    loaded,
    packed,
    padded,
    saved,
)

from hotloop.core.errors import ConfigError
from hotloop.models.attention.in_transformers import attend, layout_of, looks_of
from hotloop.models.attention.kernel_choice import Isolation
from hotloop.models.repeated_blocks import repeated_blocks
from hotloop.models.weights.discovery import find_model
from hotloop.techniques import activation_checkpointing

CLOSE = 2e-6  # of the largest number
every_model = pytest.mark.parametrize("name", CONFIGS)
every_way = pytest.mark.parametrize("way", ["documents", "mask"])
both_ways = pytest.mark.parametrize("bidirectional", [False, True])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


class Only(dict):
    """Chooses one way whatever is measured."""

    def __init__(self, way):
        super().__init__()
        self.way, self.asked = way, set()

    def __contains__(self, key):
        self.asked.add(key)
        return True

    def __getitem__(self, key):
        return self.way


def by(way):
    one = Isolation(clock=lambda: 0.0)
    one.chosen = Only(way)
    return one


def theirs(folder, dtype=torch.float32):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    own = "sdpa" if getattr(config, "attn_logit_softcapping", None) is None else "eager"
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation=own, dtype=dtype)
    return model.eval()


def apart(one, other):
    one, other = one.detach(), other.detach()
    return float((one - other).abs().max() / other.abs().max())


def states(model, texts):
    with torch.no_grad():
        return [model(input_ids=text[None]).last_hidden_state[0] for text in texts]


TEXTS = documents(5, 9, 1, 12, 7)


@every_way
@every_model
def test_a_flat_batch_is_equal_to_each_text_alone(folders, name, way):
    ours = loaded(folders[name], isolation=by(way))
    found = ours(packed(TEXTS))[0].split([len(text) for text in TEXTS])
    for one, alone in zip(found, states(theirs(folders[name]), TEXTS), strict=True):
        assert apart(one, alone) < CLOSE
    assert len(ours.isolation.chosen.asked) == {"gemma2": 0, "gemma3": 2}.get(name, 1)


@every_way
@every_model
def test_packed_rows_are_equal_to_each_text_alone(folders, name, way):
    rows = [[TEXTS[0], TEXTS[1], TEXTS[2]], [TEXTS[3], documents(3)[0]]]
    ours = loaded(folders[name], isolation=by(way))
    found = ours(packed(*rows))
    for row, out in zip(rows, found, strict=True):
        parts = out.split([len(text) for text in row])
        for one, alone in zip(parts, states(theirs(folders[name]), row), strict=True):
            assert apart(one, alone) < CLOSE


def losses(hidden, weights):
    return (hidden * weights).sum()


@every_way
@every_model
def test_gradients_are_equal_to_each_text_alone(folders, name, way):
    made, wide = torch.Generator().manual_seed(1), torch.float64
    weights = [torch.randn(len(text), 32, generator=made) for text in TEXTS]
    ours = loaded(folders[name], isolation=by(way), dtype=wide)
    other = theirs(folders[name], wide)
    losses(ours(packed(TEXTS))[0], torch.cat(weights)).backward()
    for text, weight in zip(TEXTS, weights, strict=True):
        losses(other(input_ids=text[None]).last_hidden_state[0], weight).backward()
    expected = {n: p.grad for n, p in other.named_parameters() if "pooler" not in n}
    found = {n: p.grad for n, p in ours.model.named_parameters()}
    assert found.keys() == expected.keys()
    for key, grad in found.items():
        if not key.endswith("key.bias"):  # a softmax does not change by one: its gradient is noise
            assert apart(grad, expected[key]) < 1e-6, key


@every_way
@both_ways
@every_model
def test_a_document_is_the_same_to_the_last_bit_whatever_stands_in_others(
    folders, name, way, bidirectional
):
    ours = loaded(folders[name], isolation=by(way), bidirectional=bidirectional)
    other = documents(5, 9, 1, 12, 7, seed=9)
    embedded, seen = [], []
    ours.model.get_input_embeddings().register_forward_hook(lambda *a: embedded.append(a[2]))
    for texts in (TEXTS, [other[0], TEXTS[1], other[2], other[3], other[4]]):
        out = ours(packed(texts))[0, 5:14]
        assert out.abs().min() > 0
        grad = torch.autograd.grad(out.square().sum(), embedded[-1])[0][0]
        assert torch.count_nonzero(grad[:5]) == torch.count_nonzero(grad[14:]) == 0
        assert torch.count_nonzero(grad[5:14]) > 0
        seen.append((out, grad[5:14]))
    for one, changed in zip(*seen, strict=True):
        assert torch.equal(one, changed)


def test_without_our_attention_the_check_fails(folders):
    """The pitfall itself: transformers' RoBERTa sees all of a row."""
    ours = loaded(folders["roberta"])
    ours.model.set_attn_implementation("sdpa")
    found = ours(packed(TEXTS))[0].split([len(text) for text in TEXTS])
    assert apart(found[1], states(theirs(folders["roberta"]), TEXTS)[1]) > 0.01


@every_model
def test_padded_rows_are_equal_to_transformers(folders, name):
    other = theirs(folders[name])
    batch = padded(TEXTS, pad=other.config.pad_token_id or 0, to=16)
    real = batch["attention_mask"]
    with torch.no_grad():
        expected = other(**batch).last_hidden_state
        found = loaded(folders[name])(batch)
    assert apart(found[real], expected[real]) < CLOSE
    assert found.isfinite().all()


@every_model
def test_padding_changes_nothing_to_the_last_bit(folders, name):
    ours = loaded(folders[name])
    first, second = padded(TEXTS, pad=0, to=16), padded(TEXTS, pad=7, to=16)
    real = first["attention_mask"]
    assert torch.equal(ours(first)[real], ours(second)[real])


def reopened(ours, folder):
    """Save a model and load it as transformers does."""
    ours.model.save_pretrained(folder)
    return theirs(folder)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
def test_a_bidirectional_decoder_is_that_of_transformers(folders, tmp_path, name, layout):
    """Gemma 3 has a switch for it, which halves its window; others have is_causal (5.23)."""
    ours = loaded(folders[name], bidirectional=True)
    other = reopened(ours, tmp_path)
    out, batch = ours(layout(TEXTS)), layout(TEXTS)
    real = batch.get("attention_mask", torch.ones(out.shape[:2], dtype=torch.bool))
    assert apart(out[real], torch.cat(states(other, TEXTS))) < CLOSE
    assert apart(out[real], torch.cat(states(theirs(folders[name]), TEXTS))) > 0.1
    assert not find_model(str(tmp_path)).is_decoder
    assert torch.equal(out[real], loaded(tmp_path)(layout(TEXTS))[real])


@both_ways
@pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
def test_another_decoders_window_is_that_of_transformers(tmp_path, bidirectional, layout):
    windows = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    folder = saved(tmp_path / "model", "qwen3", **windows)
    ours = loaded(folder, bidirectional=bidirectional)
    other = reopened(ours, tmp_path / "saved") if bidirectional else theirs(folder)
    assert other.config.layer_types == ["full_attention", *["sliding_attention"] * (LAYERS - 1)]
    out, batch = ours(layout(TEXTS)), layout(TEXTS)
    real = batch.get("attention_mask", torch.ones(out.shape[:2], dtype=torch.bool))
    assert apart(out[real], torch.cat(states(other, TEXTS))) < CLOSE


@pytest.mark.parametrize("window", [1, 3, 12, 40])
def test_a_window_is_kept_within_documents(tmp_path, window):
    folder = saved(tmp_path, "gemma3", sliding_window=window)
    ours = loaded(folder)
    alone = torch.cat(states(theirs(folder), TEXTS))
    assert apart(ours(packed(TEXTS))[0], alone) < CLOSE
    wide = loaded(saved(tmp_path / "wide", "gemma3", sliding_window=40))(packed(TEXTS))[0]
    assert (apart(wide, alone) < CLOSE) == (window >= 12)  # as long as the longest document


def test_a_window_seen_from_padding_is_finite(folders):
    """Padding further from a token than the window would be a softmax of nothing."""
    ours = loaded(folders["gemma3"], bidirectional=True)
    batch = padded(documents(2, 40), to=48)
    out = ours(batch)
    assert out.isfinite().all()
    out[batch["attention_mask"]].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in ours.parameters())


@pytest.mark.parametrize("mode", ["full", "selective"])
def test_recomputed_blocks_know_the_documents_again(folders, mode):
    grads = []
    for recompute in (False, True):
        ours = loaded(folders["gemma3"]).train()
        assert not recompute or activation_checkpointing.change(ours, mode=mode)
        ours(packed(TEXTS)).square().sum().backward()
        grads.append({n: p.grad for n, p in ours.named_parameters()})
    for key, grad in grads[0].items():
        assert torch.equal(grad, grads[1][key]), key


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # Dynamo's own
def test_compiled_blocks_do_the_same_and_are_not_compiled_again_for_each_batch(folders):
    from torch._dynamo.utils import counters

    plain, ours = loaded(folders["qwen3"]).train(), loaded(folders["qwen3"]).train()
    torch._dynamo.reset()
    counters.clear()
    for block in repeated_blocks(ours):
        block.compile(backend="eager")
    graphs = []
    for seed, lengths in enumerate([(5, 9, 3), (4, 6, 7, 12), (9, 13, 2, 2, 8)]):
        for layout in (packed, lambda *rows: padded(rows[0])):
            batch = layout(documents(*lengths, seed=seed))
            out, expected = ours(batch), plain(batch)
            real = batch.get("attention_mask", torch.ones(out.shape[:2], dtype=torch.bool))
            assert apart(out[real], expected[real]) < CLOSE
            out[real].square().sum().backward()
        graphs.append(counters["stats"]["unique_graphs"])
    torch._dynamo.reset()
    counters.clear()
    assert 0 < graphs[0] < graphs[1] == graphs[2]  # the second batch makes widths free


@pytest.mark.parametrize("name", ["gemma3", "bert"])
def test_attention_dropout_is_drawn_while_training(folders, name):
    key = {"gemma3": "attention_dropout", "bert": "attention_probs_dropout_prob"}[name]
    for batch in (packed(TEXTS), padded(TEXTS)):
        ours = loaded(folders[name], attention_dropout=0.5)
        assert getattr(ours.model.config, key) == 0.5
        quiet = ours(batch)
        assert torch.equal(quiet, ours(batch))
        ours.train()
        for module in ours.modules():
            if isinstance(module, torch.nn.Dropout) and "Attention" not in str(type(module)):
                module.eval()
        assert not torch.equal(quiet, ours(batch))


def test_autocast_reaches_the_documents(folders):
    seen = []

    class Told(Isolation):
        def attend(self, *given, **options):
            seen.append({x.dtype for x in given[:3]})
            return super().attend(*given, **options)

    for name in CONFIGS:
        ours = loaded(folders[name], isolation=Told(clock=lambda: 0.0))
        full = ours(packed(TEXTS))[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = ours(packed(TEXTS))[0]
            alone = torch.cat(states(theirs(folders[name]), TEXTS))
        assert seen == [{torch.float32}] * LAYERS + [{torch.bfloat16}] * LAYERS
        assert 0 < apart(mixed.float(), full) < 1.5 * apart(alone.float(), full)
        seen.clear()


def test_dropout_does_not_leak(folders):
    ours = loaded(folders["qwen3"], attention_dropout=0.3).train()
    seen = []
    for texts in (TEXTS, [TEXTS[0], *documents(9, 1, 12, 7, seed=3)]):
        torch.manual_seed(5)
        seen.append(ours(packed(texts))[0, :5])
    assert torch.equal(*seen)


def layout(**batch):
    ids = torch.zeros(2, 6, dtype=torch.int64)
    looks = [(True, None), (False, None), (True, 3), (False, 3), (True, 6), (False, 9)]
    return layout_of({"input_ids": ids, **batch}, isolation=isolation(), looks=looks).masks


def test_masks_are_made_only_where_they_are_needed():
    masks = layout()
    assert masks[True, None] is masks[False, None] is None
    assert masks.keys() == {(True, None), (False, None), (True, 3), (False, 3)}
    assert masks[True, 3].shape == masks[False, 3].shape == (1, 1, 6, 6)
    masks = layout(attention_mask=torch.ones(2, 6, dtype=torch.bool))
    assert masks[True, None] is None  # padding stands at the end
    assert masks[False, None].shape == (2, 1, 1, 6)  # no T x T
    assert masks[True, 3].shape == (1, 1, 6, 6)
    assert masks[False, 3].shape == (2, 1, 6, 6)


def call(config=None, **more):
    config = SimpleNamespace(**{"model_type": "odd", **(config or {})})
    module = SimpleNamespace(config=config, is_causal=True)
    q, k, v = (torch.randn(1, 2, 3, 4) for _ in range(3))
    batch = {"input_ids": torch.zeros(1, 3)}
    here = layout_of(batch, isolation=isolation(), looks=[(True, None)])
    return attend(module, q, k, v, None, **{"sliding_window": None, "hotloop": here, **more})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"hotloop": None}, "odd does not hand on to its attention what it was called with"),
        ({"s_aux": torch.ones(2)}, "odd has attention sinks"),
        ({"position_bias": torch.ones(2)}, "odd adds a bias"),
        ({"encoder_hidden_states": torch.ones(2)}, "odd attends to another sequence"),
    ],
)
def test_what_this_attention_cannot_do_is_refused(more, said):
    assert call()[0].shape == (1, 3, 2, 4)
    with pytest.raises(ConfigError, match=said):
        call(**more)


def test_a_window_that_is_not_told_is_refused():
    batch = {"input_ids": torch.zeros(1, 3)}
    here = layout_of(batch, isolation=isolation(), looks=[(True, None)])
    q = torch.randn(1, 2, 3, 4)
    module = SimpleNamespace(config=SimpleNamespace(model_type="odd"), is_causal=True)
    assert attend(module, q, q, q, None, hotloop=here)[0].shape == (1, 3, 2, 4)
    module.config.sliding_window = 3
    with pytest.raises(ConfigError, match="odd has sliding_window=3 in its config, but does not"):
        attend(module, q, q, q, None, hotloop=here)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layers of chunked_attention"),
        ({"attention_chunk_size": 64}, "layers of chunked_attention"),
    ],
)
def test_layers_of_another_kind_are_refused(folders, changes, said):
    model = loaded(folders["gemma3"]).model
    assert looks_of(model) == {(True, None), (True, WINDOW)}
    for key, value in changes.items():
        setattr(model.config, key, value)
    with pytest.raises(ConfigError, match=said):
        looks_of(model)
    linear = torch.nn.Linear(1, 1)
    linear.config = SimpleNamespace(model_type="odd")
    with pytest.raises(ConfigError, match="does not say which of its modules attend"):
        looks_of(linear)
