"""Derived plans: valid on any hardware, with a reason for each choice."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import techniques
from hotloop.config.common import Training
from hotloop.config.derive_plan import SHORT_CONTEXT, Choice, auto_layer, derive_plan
from hotloop.core.errors import ConfigError, PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.engine.apply_plan import check
from hotloop.recipes.char_lm.config import resolve_char_lm
from hotloop.recipes.char_lm.presets import PRESETS

GIB = 1 << 30
KEYS = ("training.precision", "training.use_compile", "training.optim", "model.attention")
ORIGINS = ("default", "command line", "preset t4 (rule): sm75", "run.yaml:3")


def cpu(*features: str, cores: float | None = 8.0) -> Hardware:
    return Hardware(device="cpu", name="a CPU", cores=cores, cpu_features=frozenset(features))


def gpu(name: str, capability: tuple[int, int] | None, gib: float | None = None) -> Hardware:
    memory = None if gib is None else int(gib * GIB)
    return Hardware(device="cuda", name=name, cores=8.0, capability=capability, memory_bytes=memory)


MACHINES = {
    "cpu bf16": cpu("avx2", "avx512_bf16"),
    "cpu": cpu("avx2"),
    "cpu unknown": cpu(cores=None),
    "mps": Hardware(device="mps", name="Apple M3", cores=8.0, memory_bytes=12 * GIB),
    "gtx 1080": gpu("NVIDIA GeForce GTX 1080", (6, 1), 8),
    "t4": gpu("Tesla T4", (7, 5), 15),
    "rtx 3090": gpu("NVIDIA GeForce RTX 3090", (8, 6), 23.7),
    "rtx 4090": gpu("NVIDIA GeForce RTX 4090", (8, 9), 23.6),
    "h100": gpu("NVIDIA H100 80GB HBM3", (9, 0), 79.2),
    "unknown GPU": gpu("a GPU of tomorrow", None),
}
every_machine = pytest.mark.parametrize("machine", MACHINES)


def derived(
    hardware: Hardware,
    *,
    attention: str = "auto",
    context: int = 256,
    steps: int = 5000,
    origin: str = "default",
    threads: tuple[int, str] = (2, "what the test says"),
    **training: object,
) -> tuple[Plan, list[Choice]]:
    asked = {"batch_size": 64, "max_steps": steps} | training
    return derive_plan(
        Training(**asked),  # type: ignore[arg-type]
        (attention, context),
        hardware,
        origins=dict.fromkeys(KEYS, origin),
        steps=steps,
        threads=threads,
    )


@pytest.mark.parametrize(
    ("optim", "takes"),
    [("adamw_torch_fused", {"fused-adamw"}), ("adamw_8bit", {"adamw-8bit"}), ("adafactor", set())],
)
def test_the_optimizer_is_what_was_configured(optim: str, takes: set[str]) -> None:
    plan, choices = derived(MACHINES["rtx 4090"], optim=optim, origin="run.yaml:3")
    assert ids(plan) & {"fused-adamw", "adamw-8bit"} == takes
    if optim == "adamw_8bit":
        assert origins_of(choices)["adamw-8bit"] == "run.yaml:3"


def ids(plan: Plan) -> set[str]:
    return {str(use) for use in plan.techniques}


def origins_of(choices: list[Choice]) -> Mapping[str, str]:
    return {choice.use.id: choice.origin for choice in choices}


COMMON = {"fused-adamw", "gc-freeze"}
ON_A_GPU = COMMON | {"lagged-loss-read", "sdpa(backend=auto)"}
ON_CUDA = ON_A_GPU | {"cuda-graphs(when=faster)"}
ON_A_CPU = COMMON | {"kept-memory", "threads(count=2)"}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("cpu bf16", ON_A_CPU | {"autocast-bf16", "sdpa(backend=naive)"}),
        ("cpu", ON_A_CPU | {"matmul-onednn", "sdpa(backend=auto)"}),
        ("cpu unknown", ON_A_CPU | {"matmul-onednn", "sdpa(backend=auto)"}),
        ("mps", ON_A_GPU),
        ("gtx 1080", ON_CUDA),
        ("t4", ON_CUDA | {"autocast-fp16", "compile"}),
        ("rtx 3090", ON_CUDA | {"autocast-bf16", "compile"}),
        ("rtx 4090", ON_CUDA | {"autocast-bf16", "compile"}),
        ("h100", ON_CUDA | {"autocast-bf16", "compile"}),
        ("unknown GPU", ON_CUDA | {"compile"}),
    ],
)
def test_what_a_machine_gets_by_itself(machine: str, expected: set[str]) -> None:
    plan, _ = derived(MACHINES[machine])
    assert ids(plan) == expected


@every_machine
def test_every_choice_has_a_reason_and_works_here(machine: str) -> None:
    hardware = MACHINES[machine]
    plan, choices = derived(hardware)
    check(plan, hardware, dict.fromkeys(ids(plan), "--with"))
    assert [choice.use for choice in choices] == list(plan.techniques)
    for choice in choices:
        assert len(choice.reason.split()) > 2
        assert techniques.get(choice.use.id).blocked(hardware, plan) is None


def test_what_is_asked_for_stays_in_the_plan_with_its_origin() -> None:
    plan, choices = derived(MACHINES["cpu"], precision="fp16", attention="cudnn", origin="c.yaml:3")
    assert origins_of(choices)["autocast-fp16"] == "c.yaml:3"
    assert {"autocast-fp16", "sdpa(backend=cudnn)"} <= ids(plan)
    check(plan, MACHINES["cpu"], origins_of(choices))
    with pytest.raises(PlanError, match="fp16"):
        check(plan, MACHINES["cpu"], dict.fromkeys(origins_of(choices), "command line"))


def test_bf16_that_does_not_work_here_does_not_choose_the_attention() -> None:
    plan, _ = derived(MACHINES["cpu"], precision="bf16", origin="preset h100")
    assert {"autocast-bf16", "sdpa(backend=auto)"} <= ids(plan)


@pytest.mark.parametrize(("context", "backend"), [(SHORT_CONTEXT, "naive"), (1024, "auto")])
def test_attention_on_a_cpu_in_bf16_goes_by_the_context(context: int, backend: str) -> None:
    plan, _ = derived(MACHINES["cpu bf16"], context=context)
    assert f"sdpa(backend={backend})" in ids(plan)


@pytest.mark.parametrize(
    ("origin", "tf32"), [("command line", False), ("experiment nanogpt-cpu", True)]
)
def test_typed_fp32_is_float32_and_not_tf32(origin: str, tf32: bool) -> None:
    plan, _ = derived(MACHINES["rtx 3090"], precision="fp32", origin=origin)
    assert ("tf32" in ids(plan)) is tf32
    assert not any(id.startswith("autocast") for id in ids(plan))


@pytest.mark.parametrize("origin", ORIGINS)
def test_float32_on_a_cpu_may_go_through_onednn_whoever_asked_for_float32(origin: str) -> None:
    plan, choices = derived(MACHINES["cpu bf16"], precision="fp32", origin=origin)
    assert "matmul-onednn" in ids(plan)
    assert origins_of(choices)["matmul-onednn"] == "auto"
    assert "matmul-onednn" not in ids(derived(MACHINES["cpu bf16"], precision="bf16")[0])


def test_tf32_is_not_derived_where_it_does_not_exist() -> None:
    for machine in ("t4", "gtx 1080", "cpu", "mps", "unknown GPU"):
        plan, _ = derived(MACHINES[machine], precision="fp32")
        assert "tf32" not in ids(plan)


@pytest.mark.parametrize(("steps", "compiled"), [(1999, False), (2000, True)])
def test_a_short_run_is_neither_compiled_nor_recorded(steps: int, compiled: bool) -> None:
    plan, _ = derived(MACHINES["h100"], steps=steps)
    assert ("compile" in ids(plan)) is compiled
    assert ("cuda-graphs(when=faster)" in ids(plan)) is compiled


@pytest.mark.parametrize(("steps", "recorded"), [(249, False), (250, True)])
def test_a_trial_of_recordings_is_paid_by_micro_batches(steps: int, recorded: bool) -> None:
    """A short run with much accumulation makes as many passes as a long one without."""
    plan, _ = derived(MACHINES["h100"], steps=steps, accumulation=8)
    assert ("cuda-graphs(when=faster)" in ids(plan)) is recorded
    assert "compile" not in ids(plan)


@pytest.mark.parametrize("machine", ["cpu", "h100"])
def test_compiling_can_be_asked_for_and_declined(machine: str) -> None:
    assert "compile" in ids(derived(MACHINES[machine], steps=1, use_compile="true")[0])
    assert "compile" not in ids(derived(MACHINES[machine], use_compile="false")[0])


def test_more_threads_than_cores_are_not_derived() -> None:
    plan, _ = derived(cpu("avx2", cores=2.0), threads=(3, "a wrong count"))
    assert plan.choice("threads") is None


def test_the_shape_of_a_step_is_what_was_configured() -> None:
    plan, _ = derived(MACHINES["cpu"], batch_size=48, accumulation=4)
    assert (plan.micro_batch, plan.accumulation) == (12, 4)
    with pytest.raises(PlanError, match="micro batch"):
        derived(MACHINES["cpu"], batch_size=2, accumulation=4)


@pytest.mark.parametrize(
    ("machine", "batch"),
    [("gtx 1080", 64), ("t4", 128), ("rtx 3090", 192), ("h100", 384), ("unknown GPU", 32)],
)
def test_the_batch_goes_by_the_memory_of_the_gpu(machine: str, batch: int) -> None:
    layer = auto_layer(MACHINES[machine])
    assert layer.values == {"training.batch_size": batch}
    assert layer.origin.startswith("auto (")
    assert (MACHINES[machine].name in layer.origin) is (machine != "unknown GPU")


@pytest.mark.parametrize("name", ["rtx3090", "h100", "t4"])
def test_a_gpu_named_by_its_preset_gets_the_batch_that_auto_derives(name: str) -> None:
    machine = {"rtx3090": "rtx 3090", "h100": "h100", "t4": "t4"}[name]
    derived_values = auto_layer(MACHINES[machine]).values
    assert derived_values["training.batch_size"] == PRESETS[name].values["training.batch_size"]


machines = st.builds(
    Hardware,
    device=st.sampled_from(["cpu", "cuda", "mps"]),
    name=st.sampled_from(["Tesla T4", "NVIDIA GeForce RTX 3090", "", "?"]),
    memory_bytes=st.none() | st.integers(0, 1 << 40),
    cores=st.none() | st.floats(0.01, 512),
    capability=st.none() | st.tuples(st.integers(0, 13), st.integers(0, 9)),
    cpu_features=st.frozensets(st.sampled_from(["avx2", "avx512_bf16", "amx_bf16", "bf16"])),
)
assignments = st.lists(
    st.sampled_from(
        [
            *(f"training.precision={p}" for p in ("auto", "fp32", "bf16", "fp16", "tf32")),
            *(f"training.optim={o}" for o in ("adamw_torch_fused", "adamw_8bit", "adafactor")),
            *(f"training.use_compile={c}" for c in ("auto", "true", "false")),
            *(f"training.batch_size={n}" for n in (0, 1, 2, 7, 48, 1_000_000)),
            *(f"training.accumulation={n}" for n in (1, 2, 3, 4, 49)),
            *(f"model.attention={a}" for a in ("auto", "naive", "flash", "cudnn", "fast")),
            *(f"model.context={n}" for n in (1, 256, 4096)),
            *(f"training.max_steps={n}" for n in (1, 2000)),
            *(f"preset={p}" for p in ("auto", *PRESETS, "rtx9090")),
            "experiment=nanogpt-cpu",
        ]
    ),
    max_size=6,
    unique_by=lambda text: text.partition("=")[0],
)


@settings(max_examples=300, deadline=None)
@given(machines, assignments, st.integers(1, 1024))
def test_any_hardware_and_configuration_give_a_valid_plan_or_a_clear_error(
    hardware: Hardware, typed: list[str], threads: int
) -> None:
    try:
        resolved = resolve_char_lm(typed, auto_layer=lambda: auto_layer(hardware))
        config, training = resolved.config, resolved.config.training
        plan, choices = derive_plan(
            training,
            (config.model.attention, config.model.context),
            hardware,
            origins=resolved.origins,
            steps=training.max_steps or 1,
            threads=(threads, "drawn"),
        )
        check(plan, hardware, origins_of(choices))
    except ConfigError as error:
        sentence = str(error)
    else:
        sentence = None
    if sentence is not None:
        assert len(sentence.split()) > 4
        return
    assert plan.micro_batch * plan.accumulation == training.batch_size
    assert Plan.from_json(plan.to_json()) == plan
    for choice in choices:
        works = techniques.get(choice.use.id).blocked(hardware, plan) is None
        assert works or choice.origin not in ("auto", "command line"), choice
        assert choice.reason


def test_two_machines_that_differ_in_name_only_get_one_plan() -> None:
    one = MACHINES["h100"]
    assert derived(one)[0] == derived(replace(one, name="another"))[0]


def test_the_origins_drawn_above_are_those_of_the_configuration() -> None:
    for origin in ORIGINS:
        plan, choices = derived(MACHINES["h100"], precision="bf16", origin=origin)
        assert origins_of(choices)["autocast-bf16"] == origin
        assert plan.choice("autocast-bf16") == {}


@every_machine
def test_a_model_with_attention_of_its_own_is_told_nothing_about_it(machine: str) -> None:
    plan, choices = derive_plan(
        Training(batch_size=64, max_steps=10),
        None,
        MACHINES[machine],
        origins=dict.fromkeys(KEYS, "default"),
        steps=10,
        threads=(2, "what the test says"),
    )
    assert choices
    assert plan.choice("sdpa") is None
