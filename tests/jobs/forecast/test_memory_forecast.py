import random
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hotloop.core.errors import ConfigError, DeviceError
from hotloop.core.hardware import Hardware
from hotloop.jobs.forecast import memory_forecast
from hotloop.jobs.forecast.memory_fit import has_flash
from hotloop.jobs.forecast.memory_forecast import Tracker, forecast, measure
from hotloop.session.batch import Batch
from hotloop.session.job import Job
from hotloop.techniques import activation_checkpointing

VOCABULARY, LENGTH = 65, 64


class Tokens:
    fingerprint = "made of a generator"

    def __init__(self, samples: int = 64) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        assert first + count <= self.samples
        source = torch.Generator().manual_seed(1000 * epoch + first)
        ids = torch.randint(VOCABULARY, (count, LENGTH + 1), generator=source)
        tensors = {"x": ids[:, :-1].contiguous(), "y": ids[:, 1:].contiguous()}
        return Batch(tensors=tensors, samples=count, tokens=ids.numel(), targets=ids.numel())


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (p.view(shape).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + functional.dropout(self.mlp(self.norms[1](x)), self.dropout, self.training)


class Transformer(nn.Module):
    def __init__(self, layers: int = 2, width: int = 128, heads: int = 4, dropout: float = 0.0):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.register_buffer("scale", torch.ones(width))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(x)) * self.scale)


def half_frozen() -> nn.Module:
    model = Transformer()
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 0)
    return model


def loss(model, batch):
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1).float(), batch["y"].flatten())


def adamw(model, **choice):
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3, **choice)


def job(**change) -> Job:
    plain = Job(
        name="tiny",
        model=Transformer,
        loss=loss,
        optimizer=adamw,
        train=Tokens(),
        valid=Tokens(),
        seed=0,
    )
    return replace(plain, **change)


def bytes_of(model, *, trainable: bool) -> int:
    return sum(
        p.numel() * p.element_size() for p in model.parameters() if p.requires_grad or not trainable
    )


# The tracker itself


def test_views_share_and_the_last_reference_frees():
    with Tracker() as tracker:
        base = torch.empty(1000)
        view = base.view(10, 100)[2:]
        assert tracker.current == 4000
        del base
        assert tracker.current == 4000
        del view
        assert (tracker.current, tracker.peak) == (0, 4000)


def test_what_autograd_saves_is_alive_without_a_python_name():
    weight = torch.ones(1000, requires_grad=True)
    with Tracker() as tracker:
        middle = weight.exp()  # saved by exp, and read by sin's backward
        out = middle.sin().sum()
        del middle
        assert tracker.current == 4000 + 4
        out.backward()
        del out
        assert tracker.current == 4000  # the gradient


def test_in_place_operators_add_nothing():
    with Tracker() as tracker:
        kept = torch.zeros(1000)
        kept.add_(1).mul_(2)
        assert tracker.peak == 4000


def test_a_sparse_gradient_does_not_stop_the_count():
    with Tracker() as tracker:
        torch.eye(100).to_sparse()
    assert tracker.peak >= 40_000


# The forecast against the same step on real tensors

FUSED = {"optimizer": lambda model: adamw(model, fused=True)}
CASES = {
    "full": {},
    "half frozen": {"model": half_frozen},
    "dropout": {"model": lambda: Transformer(dropout=0.1)},
    "fused": FUSED,
    "sgd": {"optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1)},
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("case", CASES)
def test_forecast_is_what_a_real_step_needs(case, accumulation, precision):
    asked = {"micro_batch": 4, "precision": precision, "accumulation": accumulation}
    told, real = forecast(job(**CASES[case]), **asked), measure(job(**CASES[case]), **asked)
    assert told.peak_bytes == pytest.approx(real.peak_bytes, rel=0.02)
    assert told.activations_bytes == pytest.approx(real.activations_bytes, rel=0.02)
    assert told.parameters_bytes == real.parameters_bytes
    assert told.gradients_bytes == real.gradients_bytes
    assert told.optimizer_bytes == real.optimizer_bytes
    assert told.flops == real.flops


def test_the_persistent_parts_are_what_arithmetic_says():
    model = half_frozen()
    told = forecast(job(model=half_frozen), micro_batch=2)
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert told.parameters_bytes == bytes_of(model, trainable=False) + 128 * 4  # the buffer
    assert told.gradients_bytes == bytes_of(model, trainable=True)
    steps = 4 * sum(p.requires_grad for p in model.parameters())  # AdamW's step counters
    assert told.optimizer_bytes == 2 * told.gradients_bytes + steps
    parts = told.parameters_bytes + told.gradients_bytes + told.optimizer_bytes
    assert told.peak_bytes == parts + told.activations_bytes


def test_logits_and_what_learns_are_told_apart():
    thin = partial(Transformer, layers=1, width=8, heads=2)  # the peak is where logits are
    told = forecast(job(model=thin, vocabulary=VOCABULARY), micro_batch=4)
    logits = 4 * 4 * LENGTH * VOCABULARY
    assert logits <= told.logits_bytes <= 4 * logits  # their softmax and gradient as well
    assert told.logits_bytes < told.activations_bytes
    told = forecast(job(model=half_frozen), micro_batch=4)
    assert told.trained_bytes == bytes_of(half_frozen(), trainable=True) < told.parameters_bytes
    assert told.buffers_bytes == 8 * LENGTH  # positions


def test_logits_are_not_guessed_where_a_layer_has_the_size_of_the_vocabulary():
    assert forecast(job(), micro_batch=2).logits_bytes is None  # nobody said what it is
    twin = partial(Transformer, width=128)
    assert forecast(job(model=twin, vocabulary=128), micro_batch=2).logits_bytes is None


def test_activations_grow_with_the_batch_and_shrink_in_bf16():
    small, large = (forecast(job(), micro_batch=n) for n in (8, 16))
    assert large.activations_bytes > 1.7 * small.activations_bytes
    assert large.flops == 2 * (small.flops or 0)
    half = forecast(job(), micro_batch=16, precision="bf16")
    assert half.activations_bytes < 0.8 * large.activations_bytes


def test_gradients_that_wait_for_the_next_micro_batch_are_counted():
    one, four = (forecast(job(), micro_batch=16, accumulation=n) for n in (1, 4))
    assert one.peak_bytes < four.peak_bytes <= one.peak_bytes + 1.1 * one.gradients_bytes


def test_flops_of_a_linear_layer_are_two_forward_and_two_backward():
    def squared(model, batch):
        return model(batch["x"].float()).square().mean()

    linear = job(model=lambda: nn.Linear(LENGTH, 32, bias=False), loss=squared)
    product = 2 * 8 * LENGTH * 32
    # The input needs no gradient: one product forward, one backward.
    assert forecast(linear, micro_batch=8).flops == 2 * product


def test_flops_hold_the_attention_of_the_cpu():
    layers, heads, size, batch = 1, 4, 32, 2
    told = forecast(job(model=lambda: Transformer(layers=layers)), micro_batch=batch)
    attention = 2 * 2 * batch * heads * LENGTH * LENGTH * size  # two products forward
    tokens, width = batch * LENGTH, heads * size
    dense = 2 * tokens * (12 * width * width + width * VOCABULARY)
    # The backward of attention recomputes the scores: 2.5 times its forward.
    assert told.flops == 3 * dense + attention + int(2.5 * attention)


@pytest.mark.parametrize("kernel", ["flash_attention", "efficient_attention", "cudnn_attention"])
def test_flops_of_grouped_queries_do_not_depend_on_the_torch_in_use(kernel):
    query, key = torch.empty(2, 8, 5, 16), torch.empty(2, 2, 7, 16)
    product = 2 * 2 * 8 * 5 * 7 * 16
    forward = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}")
    backward = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_backward")
    counts = memory_forecast._ATTENTION
    assert counts[forward](query, key, key) == 2 * product
    assert counts[backward](query, query, key, key) == 5 * product


def test_without_a_product_flops_are_unknown():
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = nn.Parameter(torch.zeros(LENGTH))

    added = job(model=Shift, loss=lambda model, batch: (batch["x"] + model.by).square().mean())
    assert forecast(added, micro_batch=2).flops is None


# What a GPU does otherwise


def test_on_a_gpu_dropout_keeps_no_attention_matrix():
    with_dropout = job(model=lambda: Transformer(dropout=0.1))
    cpu = forecast(with_dropout, micro_batch=16)
    gpu = forecast(with_dropout, micro_batch=16, device="cuda")
    plain = forecast(job(), micro_batch=16, device="cuda")
    assert plain.peak_bytes < gpu.peak_bytes < 1.1 * plain.peak_bytes
    assert cpu.peak_bytes > 1.2 * gpu.peak_bytes
    assert "CUDA context" in gpu.left_out
    assert "CUDA" not in cpu.left_out


class Grouped(nn.Module):
    """Four heads of width 8 that share the keys of one."""

    def __init__(self, mask: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 48), nn.Linear(32, VOCABULARY)
        self.mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool) if mask else None

    def forward(self, x: Tensor) -> Tensor:
        heads = self.embed(x).unflatten(-1, (6, 8)).transpose(1, 2)
        q, k, v = heads.split((4, 1, 1), dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, self.mask, enable_gqa=True)
        return self.head(mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("mask", [False, True])
def test_shared_keys_are_repeated_where_flash_attention_cannot_run(mask):
    shared = job(model=lambda: Grouped(mask))
    old, new = (
        forecast(shared, micro_batch=16, device="cuda", flash=flash) for flash in (False, True)
    )
    repeated = 2 * 16 * 4 * LENGTH * 8 * 4  # keys and values, as bytes of float32
    assert old.activations_bytes - new.activations_bytes == (0 if mask else repeated)


@pytest.mark.parametrize(
    ("capability", "precision", "runs"),
    [
        ((8, 9), "bf16", True),
        ((7, 5), "fp16", False),
        ((8, 9), "tf32", False),
        (None, "bf16", True),
    ],
)
def test_where_flash_attention_runs(capability, precision, runs):
    gpu = Hardware(device="cuda", name="a GPU", capability=capability)
    assert has_flash(gpu, precision) is runs


# Recomputing


class Stack(Transformer):
    """The blocks in a list, as checkpointing looks for them."""

    def __init__(self, mode: str) -> None:
        super().__init__(layers=4, dropout=0.1)
        self.blocks = nn.ModuleList(self.blocks)
        if mode != "off":
            activation_checkpointing.change(self, mode=mode)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x * self.scale)


def test_what_recomputing_saves_is_forecast_as_on_real_tensors():
    activations = {}
    for mode in ("off", "selective", "full"):
        made = job(model=lambda mode=mode: Stack(mode))
        told, real = forecast(made, micro_batch=4), measure(made, micro_batch=4)
        assert told.peak_bytes == pytest.approx(real.peak_bytes, rel=0.02)
        assert told.flops == real.flops
        activations[mode] = told.activations_bytes
    assert activations["full"] < 0.8 * activations["selective"] < 0.7 * activations["off"]


# No trace


def test_random_streams_and_global_state_stay_as_they_are():
    def seeded() -> nn.Module:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        return Transformer(dropout=0.5)

    torch_before, python_before = torch.get_rng_state(), random.getstate()
    numpy_before = np.random.get_state()
    hooks = nn.modules.module
    for run in (forecast, measure):
        run(job(model=seeded), micro_batch=2, precision="bf16")
        assert torch.equal(torch.get_rng_state(), torch_before)
        assert random.getstate() == python_before
        assert np.array_equal(np.random.get_state()[1], numpy_before[1])
        assert not hooks._global_forward_pre_hooks
        assert not hooks._global_forward_hooks
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
        assert type(torch.empty(1)) is torch.Tensor
    assert "numpy" in sys.modules


def test_a_job_trains_the_same_after_a_forecast():
    def train() -> Tensor:
        torch.manual_seed(3)
        model = Transformer(layers=1)
        optimizer = adamw(model)
        for _ in range(2):
            loss(model, Tokens().batch(0, 0, 4).tensors).backward()
            optimizer.step()
            optimizer.zero_grad()
        return nn.utils.parameters_to_vector(model.parameters()).detach()

    before = train()
    forecast(job(), micro_batch=4)
    assert torch.equal(before, train())


# Edges


def test_a_batch_larger_than_the_data_set_is_forecast_too():
    few, many = (forecast(job(train=Tokens(n)), micro_batch=16) for n in (3, 64))
    assert few.peak_bytes == many.peak_bytes
    assert few.micro_batch == 16


def test_a_model_that_reads_values_has_no_forecast_but_a_measurement():
    def reads(model, batch):
        found = loss(model, batch)
        return found if found.item() > 0 else 2 * found

    def shaped_by_data(model, batch):
        return model(batch["x"])[batch["y"] > 3].square().mean()

    for odd in (reads, shaped_by_data):
        with pytest.raises(DeviceError, match="memory of tiny cannot be forecast"):
            forecast(job(loss=odd), micro_batch=2)
        assert measure(job(loss=odd), micro_batch=2).peak_bytes > 0


def test_an_error_of_the_model_stays_its_own():
    def broken(model, batch):
        return model(batch["x"]) @ torch.ones(3)

    with pytest.raises(RuntimeError) as caught:
        forecast(job(loss=broken), micro_batch=2)
    assert not isinstance(caught.value, DeviceError)


def test_a_misspelt_precision_is_refused():
    with pytest.raises(ConfigError, match="did you mean bf16"):
        forecast(job(), micro_batch=2, precision="bf-16")


def test_what_the_forecast_costs_is_told_by_the_clock():
    ticks = iter([10.0, 10.25])
    assert forecast(job(), micro_batch=2, clock=lambda: next(ticks)).seconds == 0.25


def test_a_forecast_of_eleven_million_parameters_takes_under_a_second():
    large = job(model=lambda: Transformer(layers=6, width=384, heads=6))
    forecast(large, micro_batch=12)  # the first one of a process loads parts of torch
    told = forecast(large, micro_batch=12, clock=time.process_time)  # the machine may be busy
    assert told.parameters_bytes > 10e6 * 4
    assert told.seconds < 1.0


def test_the_batch_of_a_forecast_is_the_jobs_widest_where_it_has_one():
    def long(count: int) -> Batch:
        ids = torch.zeros(count, 2 * LENGTH + 1, dtype=torch.int64)
        tensors = {"x": ids[:, :-1].contiguous(), "y": ids[:, 1:].contiguous()}
        return Batch(tensors=tensors, samples=count, tokens=ids.numel(), targets=ids.numel())

    plain, wide = forecast(job(), micro_batch=4), forecast(job(widest=long), micro_batch=4)
    assert wide.parameters_bytes == plain.parameters_bytes
    assert wide.activations_bytes > 1.9 * plain.activations_bytes
