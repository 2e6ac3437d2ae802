import json
from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from benchmarks.scaling import CLUSTERS, MODELS, RESULT, row, step_of
from benchmarks.scaling_gloo import BLOCKS, INNER, SIZES, WIDTH, fitted_link, predicted
from benchmarks.scaling_paper import (
    BUCKET,
    Cluster,
    Link,
    Model,
    all_reduce,
    buckets,
    checkpoint_seconds,
    memory,
    one_pass,
    sent_seconds,
    work,
)
from benchmarks.scaling_sources import FIGURES, value
from benchmarks.scaling_steps import Noise, Step, simulate

from benchmarks import scaling_page

NOISE, STEADY = Noise(block=0.02, rank=0.01), Noise()
RECORD = json.loads(RESULT.read_text(encoding="utf-8"))
both_schemes = pytest.mark.parametrize("scheme", ["ddp", "fsdp2"])
every_size = pytest.mark.parametrize("machines", [1, 8])


def cluster(machines=1, bandwidth=100e9, hop=5e-6, start=1e-5, per_machine=8) -> Cluster:
    link = Link(bandwidth=bandwidth, hop=hop)
    return replace(
        CLUSTERS["h100x8"],
        machines=machines,
        per_machine=per_machine,
        inside=link,
        between=replace(link, bandwidth=bandwidth / 8),
        start=start,
    )


FREE = {"bandwidth": inf, "hop": 0.0, "start": 0.0}


def step(scheme="ddp", where=None, *, micro=1, samples=256) -> Step:
    return step_of(MODELS["qwen"], where or cluster(), scheme, samples, micro, 1024)


def computing(one: Step) -> float:
    return one.accumulation * (sum(one.forward) + sum(one.backward)) + one.optimizer


def seconds(one: Step, where: Cluster, scheme: str, noise=STEADY, steps=1, seed=0):
    return simulate(one, where, scheme, noise=noise, steps=steps, seed=seed)


@both_schemes
@every_size
def test_a_network_without_cost_leaves_computing(scheme, machines):
    where = cluster(machines, **FREE)
    one = step(scheme, where)
    assert seconds(one, where, scheme)[0] == pytest.approx(computing(one))


@both_schemes
def test_one_rank_sends_nothing(scheme):
    where = cluster(per_machine=1)
    one = step(scheme, where, micro=4)
    assert seconds(one, where, scheme)[0] == pytest.approx(computing(one))
    assert sent_seconds(MODELS["qwen"], where, scheme, one.accumulation) == 0


@both_schemes
@every_size
def test_without_computing_a_step_is_its_communication(scheme, machines):
    where = cluster(machines)
    one = step(scheme, where)
    nothing = [0.0] * len(one.forward)
    idle = replace(one, forward=nothing, backward=nothing, optimizer=0.0)
    on_paper = sent_seconds(MODELS["qwen"], where, scheme, one.accumulation)
    assert seconds(idle, where, scheme)[0] == pytest.approx(on_paper)


@both_schemes
@every_size
@pytest.mark.parametrize("bandwidth", [1e9, 30e9, 400e9])
def test_a_step_lies_between_all_hidden_and_nothing_hidden(scheme, machines, bandwidth):
    where = cluster(machines, bandwidth)
    one = step(scheme, where)
    sent = sent_seconds(MODELS["qwen"], where, scheme, one.accumulation)
    assert computing(one) <= seconds(one, where, scheme)[0] <= computing(one) + sent


@both_schemes
def test_the_seed_decides(scheme):
    where = cluster()
    one = step(scheme, where)
    first, again, other = (seconds(one, where, scheme, NOISE, 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@both_schemes
def test_more_bandwidth_is_never_slower(scheme):
    one = step(scheme)
    taken = [
        seconds(one, cluster(8, bandwidth), scheme, NOISE, 20, 1)
        for bandwidth in (1e9, 1e10, 5e10, 1e11, 1e12, inf)
    ]
    for slow, fast in pairwise(taken):
        assert (fast <= slow + 1e-12).all()


@both_schemes
def test_the_slowest_of_more_ranks_is_slower(scheme):
    one = step(scheme)
    few, many = (
        np.median(seconds(one, cluster(machines, **FREE), scheme, NOISE, 100, 1))
        for machines in (1, 8)
    )
    assert computing(one) < few < many


def test_ddp_sends_once_a_step_and_fsdp2_in_each_micro_batch():
    where = cluster(bandwidth=5e9)
    model = MODELS["qwen"]
    assert sent_seconds(model, where, "ddp", 4) == sent_seconds(model, where, "ddp", 1)
    assert sent_seconds(model, where, "fsdp2", 4) == 4 * sent_seconds(model, where, "fsdp2", 1)
    one = step("fsdp2", where, micro=8)
    late = replace(one, scatter_each=False)
    assert one.accumulation == 4
    assert seconds(late, where, "fsdp2")[0] < seconds(one, where, "fsdp2")[0]


def test_collectives_are_the_rings_formula():
    plain = cluster(hop=0.0, start=0.0)
    assert all_reduce(plain, 8e9) == pytest.approx(2 * 7 / 8 * 8e9 / 100e9)
    assert one_pass(plain, 8e9) == pytest.approx(7 / 8 * 8e9 / 100e9)
    assert all_reduce(cluster(bandwidth=inf), 8e9) == pytest.approx(1e-5 + 2 * 7 * 5e-6)
    many = cluster(8, hop=0.0, start=0.0)
    assert one_pass(many, 8e9) == pytest.approx(7 / 8 * 1e9 / 12.5e9)  # each GPU its own port
    assert one_pass(cluster(8), 8e9) >= one_pass(cluster(1), 8e9)


def test_buckets_hold_every_byte_once():
    sizes = MODELS["qwen"].gradients()
    made = buckets(sizes)
    assert sum(size for size, *_ in made) == sum(sizes)
    assert made[0][0] == 1 << 20
    assert max(size for size, *_ in made[:-1]) <= BUCKET
    assert made[-1] == (sizes[-1], len(sizes) - 1, 1.0)
    places = [(unit, share) for _, unit, share in made]
    assert places == sorted(places)
    assert sum(size for size, *_ in buckets(MODELS["lora"].gradients())) == pytest.approx(
        4 * MODELS["lora"].trained, rel=1e-4
    )


def test_memory_shrinks_by_what_a_scheme_splits():
    model, numbers = MODELS["llama"], MODELS["llama"].numbers
    whole = memory(model, "ddp", 8, 0)
    assert sum(whole.values()) == 18 * numbers
    for stage in ("zero1", "zero2"):
        copies = whole["copies"] + numbers / 2
        assert memory(model, stage, 8, 0) == {**whole, "AdamW": numbers, "copies": copies}
    rows, three = memory(model, "fsdp2", 8, 0), memory(model, "zero3", 8, 0)
    assert [rows[part] for part in ("weights", "gradients", "AdamW")] == [
        numbers / 2, numbers / 2, numbers,
    ]  # fmt: skip
    assert three["copies"] < rows["copies"] < whole["copies"]
    assert three == {**rows, "gradients": 4 * numbers, "copies": three["copies"]}
    assert sum(memory(MODELS["lora"], "ddp", 8, 0).values()) < 7 * MODELS["lora"].numbers


def test_a_checkpoint_is_written_by_all_machines_at_once():
    model = MODELS["llama"]
    assert checkpoint_seconds(model, 1, 12e9) == pytest.approx(model.numbers / 1e9)
    assert checkpoint_seconds(model, 8, 12e9) == pytest.approx(model.numbers / 8e9)


@pytest.mark.parametrize(("name", "numbers"), [("qwen", 596_049_920), ("llama", 8_030_261_248)])
def test_the_models_have_the_numbers_that_their_authors_count(name, numbers):
    assert MODELS[name].numbers == pytest.approx(numbers, rel=1e-3)  # norms are left out


def test_char_lm_is_the_recipes_model():
    import torch

    from hotloop.models.gpt import Gpt

    model = MODELS["char-lm"]
    with torch.device("meta"):
        built = Gpt(
            vocabulary=model.vocabulary, layers=model.layers, heads=model.heads,
            width=model.width, context=1024,
        )  # fmt: skip
    counted = sum(parameter.numel() for parameter in built.parameters())
    assert model.numbers == pytest.approx(counted, rel=1e-3)


def flops(model: Model, tokens: int, context: int) -> float:
    forward, backward, head, head_back = work(model, tokens, context)
    return model.layers * (forward + backward) + head + head_back


def test_work_is_six_flops_a_number_and_the_attention():
    model = MODELS["qwen"]
    attention = 12 * model.layers * model.heads * model.head_width * 1024
    assert flops(model, 10, 1024) == pytest.approx(10 * (6 * model.numbers + attention))
    frozen = flops(MODELS["lora"], 10, 1024)
    assert 0.6 < frozen / flops(model, 10, 1024) < 0.8  # frozen weights need no gradient
    again = flops(replace(model, recompute=True), 10, 1024)
    assert again == pytest.approx(flops(model, 10, 1024) + 10 * (2 * 28 * model.block) + 10 * (
        attention / 3
    ))  # fmt: skip


def test_every_figure_says_how_it_is_known():
    for figure in FIGURES.values():
        assert figure.source in {"measured", "published", "derived", "assumed"}
        assert figure.where
        if figure.source == "published":
            assert "http" in figure.where or "github.com" in figure.where or "core" in figure.where
    assert value("nvlink4_reached") == 370e9
    assert value("hop_nvlink") == pytest.approx(3.4e-6)
    assert RECORD["figures"] == {name: figure.to_json() for name, figure in FIGURES.items()}


@pytest.mark.parametrize("number", [1, 18])  # under ddp and under fsdp2
def test_the_record_is_what_the_code_says(number):
    told = RECORD["rows"][number]
    kept = RECORD["models"][told["case"]]
    model = replace(
        MODELS[told["case"]],
        activation_bytes=kept["activation_bytes"],
        logits_bytes=kept["logits_bytes"],
    )
    where = next(each for each in CLUSTERS.values() if each.name == told["cluster"])
    found = row(model, where, told["by"], told["samples"], told["context"])
    assert found["step_s"] == pytest.approx(told["step_s"])
    assert found["memory"] == pytest.approx(told["memory"])


def test_what_does_not_fit_is_said():
    large = [row for row in RECORD["rows"] if not row["fits"]]
    assert {(row["model"], row["cluster"]) for row in large} == {
        ("Llama 3.1 8B", "1 x H100"),
        ("Llama 3.1 8B", "8 x RTX 4090"),
    }


def test_the_guide_is_up_to_date():
    text = scaling_page.GUIDE.read_text(encoding="utf-8")
    assert scaling_page.replaced(text, RECORD) == text, "run python -m benchmarks.scaling docs"


def test_a_record_without_a_measurement_says_so():
    lines = list(scaling_page.comparison({}))
    assert lines == [
        "Two ranks on a CPU: not measured yet, `python -m benchmarks.scaling measured`."
    ]


def test_the_link_of_two_ranks_is_read_from_all_reduces():
    readings = {f"all-reduce {size}": [2e-4 + (size - 4) / 1e9] * 3 for size in SIZES}
    start, bandwidth = fitted_link(readings)
    assert start == pytest.approx(2e-4)
    assert bandwidth == pytest.approx(1e9, rel=1e-3)


def test_the_step_of_two_ranks_is_predicted_by_the_same_simulation():
    assert predicted(0.1, 0.2, cluster(per_machine=2, **FREE)) == pytest.approx(0.3)
    slow = cluster(per_machine=2, bandwidth=1e9, hop=0.0, start=0.0)
    whole = BLOCKS * 2 * WIDTH * INNER * 4 / 1e9
    assert predicted(0.0, 0.0, slow) == pytest.approx(whole)
    assert 0.3 < predicted(0.1, 0.2, slow) < 0.3 + whole
