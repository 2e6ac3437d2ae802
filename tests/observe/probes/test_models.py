"""The model probe on small scripts."""

import pytest

from hotloop.observe.probes.discarded_outputs import discarded
from hotloop.observe.probes.layers import layers
from hotloop.rules.parameters import p2_dead_parameters, p3_wasted_compute, p6_no_op_change

START = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
"""


def loop(model, batch, *, steps=12, extra=""):
    """A script that trains `model` on `batch` for some steps."""
    return f"""{START}{extra}
def main():
    model = {model}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.01)
    for step in range({steps}):
        {batch}
        out = model(x)
        out = out[0] if isinstance(out, tuple) else out
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
main()
"""


LORA = """
class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.zeros(2, 8))
    def forward(self, x):
        return self.base(x) + (x @ self.A.T).sum()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 8).requires_grad_(False)
        self.lora = Lora(self.trunk)
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.trunk(x))
"""


def test_adapters_that_are_never_called_are_dead_and_unused(observed):
    model = observed(loop("Net()", "x = torch.randn(4, 8)", extra=LORA)).models[0]
    assert model.dead == ("lora.A",)
    assert model.dead_parameters == 16
    assert model.unused == ("lora",)
    assert model.unused_parameters == 16  # the trunk inside it is used
    assert model.adapters == ("lora",)
    assert (
        model.unused_place.line
        == LORA.count("\n", 0, LORA.index("self.lora")) + START.count("\n") + 1
    )


def test_a_healthy_model_has_nothing_dead_unused_or_repeated(observed):
    model = observed(
        loop("nn.Sequential(nn.Linear(8, 8), nn.Tanh())", "x = torch.randn(4, 8)")
    ).models[0]
    assert (model.dead, model.unused, model.repeats, model.frozen_graph) == ((), (), (), None)
    assert model.compute == "float32"
    assert model.output == (4, 8)
    assert model.forward_modes["train grad"] >= 5


TWICE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(8), nn.Linear(8, 8)
    def first(self, x):
        return self.body(self.norm(x))
    def second(self, x):
        return self.body(self.norm({second}))
    def forward(self, x):
        return self.first(x) + self.second(x)
"""


@pytest.mark.parametrize(("second", "same"), [("x", True), ("x + 1.5 * x.flip(0)", False)])
def test_a_module_that_runs_twice_is_told_by_its_inputs(observed, second, same):
    text = loop("Net()", "x = torch.randn(4, 8)", extra=TWICE.format(second=second))
    repeats = {repeat.module: repeat for repeat in observed(text).models[0].repeats}
    body = repeats["body"]
    assert (body.calls, body.repeated, body.frozen) == (2.0, float(same), False)
    assert len(body.call_places) == 2
    assert body.seconds > 0


FROZEN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 8), {dropout}nn.Tanh()).requires_grad_(False)
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.trunk(x))
def main():
    model = Net()
    loader = DataLoader(TensorDataset(torch.randn(24, 8)), 4)
    optimizer = torch.optim.SGD(model.head.parameters(), 0.01)
    for epoch in range(4):
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
main()
"""


def test_a_frozen_trunk_sees_the_same_rows_in_each_epoch(observed):
    model = observed(START + FROZEN.format(dropout="")).models[0]
    [trunk] = [repeat for repeat in model.repeats if repeat.frozen]
    assert trunk.module == "trunk"
    assert trunk.parameters == 72
    assert trunk.again == pytest.approx(3 / 4)
    assert model.frozen_prefix_seconds > 0
    assert model.frozen_graph is None


def test_a_frozen_trunk_with_dropout_does_not_give_the_same_again(observed):
    model = observed(START + FROZEN.format(dropout="nn.Dropout(0.5), ")).models[0]
    assert [repeat.again for repeat in model.repeats if repeat.frozen] == [None]


def test_a_trunk_that_no_optimizer_holds_still_builds_a_graph(observed):
    text = START + FROZEN.format(dropout="").replace(".requires_grad_(False)", "")
    model = observed(text).models[0]
    assert model.frozen_graph == "trunk"
    assert model.frozen_prefix_seconds > 0


def test_the_operations_of_a_step_are_counted(observed):
    case = observed(START + FROZEN.format(dropout=""))
    # 2 each: 4 rows * 64 forward; 4 rows * 16 forward and for the weight's gradient
    assert case.steps.flops == 2 * 4 * 64 + 2 * 2 * 4 * 16


def test_an_average_of_weights_is_not_frozen(observed):
    text = START + FROZEN.format(dropout="").replace(
        "            optimizer.step()",
        "            optimizer.step()\n            model.trunk[0].weight.data.mul_(0.9)",
    )
    assert [repeat for repeat in observed(text).models[0].repeats if repeat.frozen] == []


ATTENTION = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(20, 16), nn.Linear(16, 48)
    def forward(self, x):
        b, t = x.shape
        q, k, v = self.qkv(self.embed(x)).view(b, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return {attend}
"""
EAGER = "(q @ k.transpose(-1, -2) / 3).softmax(-1) @ v"
SDPA = "F.scaled_dot_product_attention(q, k, v, is_causal={})"


@pytest.mark.parametrize(
    ("attend", "kind", "kernel"), [(EAGER, "eager", None), (SDPA.format(True), "sdpa", "flash")]
)
def test_attention_is_named_by_what_ran(observed, attend, kind, kernel):
    text = loop(
        "Attention()", "x = torch.randint(20, (3, 12))", extra=ATTENTION.format(attend=attend)
    )
    [attention] = observed(text).models[0].attention
    assert (attention.kind, attention.kernel, attention.calls) == (kind, kernel, 1.0)
    assert attention.causal is None  # the output is [B, heads, T, width]


@pytest.mark.parametrize("causal", [True, False])
def test_a_later_token_is_changed_when_a_stopped_run_is_over(observed, causal):
    attend = SDPA.format(causal) + ".transpose(1, 2)"
    text = loop(
        "Attention()", "x = torch.randint(20, (3, 12))", extra=ATTENTION.format(attend=attend)
    )
    assert observed(text, steps=8).models[0].attention[0].causal is causal


POOLED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return x + F.scaled_dot_product_attention(q, k, v, is_causal={causal})
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block = nn.Embedding(20, 16), Block()
        self.bidirectional = True
        self.head = nn.Linear(16, 5)
    def forward(self, x):
        return {output}
"""
CLASSES = "self.head(self.block(self.embed(x)).mean(1))"
LOSS = "F.cross_entropy(self.head(self.block(self.embed(x)).mean(1)), x[:, 0] % 5)"


@pytest.mark.parametrize("output", [CLASSES, LOSS])
@pytest.mark.parametrize("causal", [True, False])
def test_a_model_that_pools_and_is_gone_is_probed_as_well(observed, causal, output):
    extra = POOLED.format(causal=causal, output=output)
    case = observed(loop("Net()", "x = torch.randint(20, (3, 12))", extra=extra))
    [attention] = case.models[0].attention
    assert attention.causal is causal
    assert case.models[0].output == (3, 5)
    finding = p6_no_op_change.RULE.judge(case)
    assert (finding is not None) is causal  # it asks for bidirectional attention


def test_nothing_is_run_again_where_the_whole_run_is_observed(observed):
    attend = SDPA.format(True) + ".transpose(1, 2)"
    text = loop(
        "Attention()", "x = torch.randint(20, (3, 12))", extra=ATTENTION.format(attend=attend)
    )
    assert observed(text, full=True).models[0].attention[0].causal is None


def test_convolutions_norms_and_layout_are_counted(observed):
    first, second = "nn.Conv2d(3, 4, 3)", "nn.Conv2d(4, 4, 3, bias=False)"
    norm = "nn.BatchNorm2d(4)"
    net = f"nn.Sequential({first}, {norm}, {second}, {norm}, nn.Dropout(0.2))"
    model = observed(loop(net, "x = torch.randn(2, 3, 8, 8)")).models[0]
    assert (model.convolutions, model.bias_before_norm, model.normalised) == (2, 1, True)
    assert model.channels_last is False
    assert model.dropout == 0.2


CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        return checkpoint(self.block, self.first(x), use_reentrant={reentrant})
"""


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_is_seen_and_is_no_repeat(observed, reentrant):
    text = loop("Net()", "x = torch.randn(4, 8)", extra=CHECKPOINTED.format(reentrant=reentrant))
    case = observed(text)
    assert case.models[0].checkpointed
    assert case.models[0].repeats == ()
    assert len(case.models) == 1  # what backward runs again is no model of its own


def test_autocast_gives_the_dtype_of_products(observed):
    text = loop("nn.Linear(8, 8)", "x = torch.randn(4, 8)").replace(
        "out = model(x)\n", "with torch.autocast('cpu', torch.bfloat16): out = model(x)\n"
    )
    assert observed(text).models[0].compute == "bfloat16"


def test_a_model_that_fails_in_its_forward_pass_leaves_the_next_passes_whole(observed):
    text = loop("Net()", "x = torch.randn(4, 8)", extra=TWICE.format(second="x")).replace(
        "        out = model(x)\n",
        "        try: model(x[:, :3])\n        except RuntimeError: pass\n        out = model(x)\n",
    )
    found = {repeat.module: repeat.calls for repeat in observed(text).models[0].repeats}
    assert found["body"] == 2


@pytest.mark.parametrize("batch_first", [True, False])
def test_rows_that_meet_are_found_when_the_script_has_let_its_model_go(observed, batch_first):
    model = f"nn.TransformerEncoderLayer(8, 2, 16, batch_first={batch_first})"
    found = observed(loop(model, "x = torch.randn(4, 6, 8)"), steps=50).models[0]
    assert found.rows == 4
    assert found.sequence_first == (() if batch_first else ("self_attn",))
    assert found.mixes_rows is (None if batch_first else True)


RECURRENT = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(8, 8, 3)
    def forward(self, given):
        return self.layer(*given)[0]
"""


def test_the_states_of_a_recurrent_layer_keep_their_layers(observed):
    batch = "x = torch.randn(4, 6, 8), (torch.zeros(3, 6, 8), torch.zeros(3, 6, 8))"
    found = observed(loop("Net()", batch, extra=RECURRENT), steps=50).models[0]
    assert (found.rows, found.unbatched) == (4, ())
    assert found.mixes_rows is True  # the rows come first, and the layer takes them for time


def test_rows_without_a_sequence_are_one_sequence_for_a_recurrent_layer(observed):
    model = "nn.Sequential(nn.LSTM(8, 8))"
    found = observed(loop(model, "x = torch.randn(4, 8)"), steps=50).models[0]
    assert (found.rows, found.unbatched) == (4, ("0",))
    assert found.mixes_rows is True


def test_tables_are_counted_unless_their_gradients_are_sparse(observed):
    extra = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.items, self.users = nn.Embedding(50, 8), nn.Embedding(90, 8, sparse=True)
    def forward(self, x):
        return self.items(x) + self.users(x)
"""
    found = observed(loop("Net()", "x = torch.randint(40, (4,))", extra=extra)).models[0]
    assert (found.tables, found.table_rows) == (400, 50)


HEAD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.out = nn.Linear(8, 1)
        self.head = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8))
        self.spare = nn.Linear(8, 8)
    def forward(self, x):
        h = self.body(x)
        aux = self.head(h)
        USE
        return self.out(h)
"""


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("pass", [("head", False)]),
        ("return self.out(h), aux", [("head", True)]),
        ("h = h * (1 + aux.argmax(-1, keepdim=True))", []),
        ("h = h + aux", []),
        ("self.aux = aux", []),  # the script may read it
        ("print(aux.mean().item())", []),
    ],
)
def test_a_module_whose_output_nothing_reads_is_told_from_one_that_chooses(observed, use, said):
    text = loop("Net()", "x = torch.randn(4, 8)", extra=HEAD.replace("USE", use), steps=20)
    case = observed(text)
    model = case.models[0]
    assert [(part.module, part.returned) for part in model.discarded] == said
    for part in model.discarded:
        assert part.parameters == 8 * 64 + 64 + 64 * 8 + 8
        assert 0 < part.share <= 1
    finding = p3_wasted_compute.judge(case)
    assert (finding is None) == (not said)
    if said:
        assert finding.claim.startswith("head (Sequential, 1,096 parameters) runs in each")
        assert finding.severity == "note" or not said[0][1]
        assert finding.places
    dead = p2_dead_parameters.judge(case)
    assert "spare is never called: 72 of 1,249 trainable" in dead.claim  # not the head's too


def test_a_model_that_is_asked_for_readers_stays_as_it_was():
    torch = pytest.importorskip("torch")
    head, norm = torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(4)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.norm, self.drop = head, norm, torch.nn.Dropout()

        def forward(self, x):
            self.head(x)
            return self.drop(self.norm(x))

    model = Net().eval()
    rows = torch.randn(2, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = discarded(model, ((rows,), {}), [], layers(model), [id(head), id(norm)])
    assert [part.module for part in found] == ["head"]
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert head.weight.grad is None


UNDER_NO_GRAD = """
import torch
from torch import nn
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        with torch.no_grad():
            x = self.trunk(x)
        return self.head(x)
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(6, 8)).square().mean().backward()
    optimizer.step()
"""


def test_a_part_under_no_grad_is_frozen_though_its_parameters_require_gradients(observed):
    case = observed(UNDER_NO_GRAD)
    assert [part.module for part in case.models[0].repeats if part.frozen] == ["trunk"]
    finding = p2_dead_parameters.judge(case)
    assert finding.claim.startswith("trunk runs with autograd off: 72 of 90 trainable parameters")
    assert finding.severity == "note"
