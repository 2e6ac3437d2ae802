"""Gates, stages and read-backs; a compilation that fails in each of the places where it can."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

from hotloop import techniques
from hotloop.core.effect import Effect
from hotloop.core.errors import DivergedError, PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use
from hotloop.data.sampling.context_windows import Windows
from hotloop.engine.apply_plan import TYPED, after_warm_up, check, prepare, warm_up
from hotloop.engine.signals import Dropped
from hotloop.engine.step import NonFiniteGuard, accumulate, update
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.batch import Batch
from hotloop.session.job import Job
from hotloop.session.session import Session
from hotloop.techniques import compile as compiling
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

# Dynamo looks at `.grad` of tensors inside the graph; where warnings are errors it trips over that.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

CPU = Hardware(device="cpu", name="a CPU", cores=2.0, cpu_features=frozenset({"avx2"}))
PLAN = Plan(micro_batch=4)
typed = pytest.mark.parametrize("origin", sorted(TYPED))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def job(**changes: Any) -> Job:
    ids = np.arange(400, dtype=np.uint16) % 7
    windows = Windows(ids, tokens_fingerprint="", context=8, seed=0, shuffle=True)
    whole = Job(
        name="prepare",
        model=lambda: Gpt(vocabulary=7, layers=2, heads=2, width=8, context=8, dropout=0.1),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-2, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=0,
    )
    return replace(whole, **changes)


def ready(*uses: Use, of: Job | None = None) -> tuple[Session, list[Effect]]:
    return prepare(of or job(), replace(PLAN, techniques=uses), CPU, {})


def losses(session: Session, steps: int = 5) -> list[float]:
    guard, found = NonFiniteGuard(session), []
    for step in range(steps):
        loss = accumulate(session, [session.job.train.batch(0, 4 * step, 4)], str, int)
        update(session, guard, loss, 1.0)
        found.append(loss.item())
    return found


def first_batch(session: Session) -> Batch:
    return session.job.train.batch(0, 0, 4)


@pytest.fixture(autouse=True)
def process_switches() -> Iterator[None]:
    """Fail a test that leaves a switch of the process on; forget what was compiled."""
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.compiler.reset()
    after = torch.get_num_threads(), torch.get_float32_matmul_precision()
    assert after == before


# Gates and choices.


@typed
@pytest.mark.parametrize(
    ("use", "why"),
    [
        (Use.of("autocast-fp16"), "40 to 100 times slower"),
        (Use.of("autocast-bf16"), "would be emulated"),
        (Use.of("tf32"), "CUDA tensor cores"),
        (Use.of("lagged-loss-read"), "no queue"),
        (Use.of("sdpa", backend="cudnn"), "for CUDA"),
        (Use.of("compile", mode="reduce-overhead"), "CUDA graphs"),
        (Use.of("threads", count=16), "16 threads on 2 cores"),
    ],
    ids=str,
)
def test_what_was_typed_and_cannot_work_is_an_error_before_anything_is_built(
    use: Use, why: str, origin: str
) -> None:
    def never() -> nn.Module:
        raise AssertionError("the model was built")

    plan = replace(PLAN, techniques=(use,))
    with pytest.raises(PlanError, match=why) as first:
        check(plan, CPU, {use.id: origin})
    with pytest.raises(PlanError) as second:
        prepare(job(model=never), plan, CPU, {use.id: origin})
    assert str(second.value) == str(first.value)
    assert "Leave it out" in str(first.value)


@pytest.mark.parametrize("origin", ["auto", "preset t4 (rule): sm75", "plan p.json", "c.yaml:3"])
def test_what_was_not_typed_and_cannot_work_is_a_row_and_the_run_goes_on(origin: str) -> None:
    plan = replace(PLAN, techniques=(Use.of("autocast-fp16"), Use.of("fused-adamw")))
    check(plan, CPU, {"autocast-fp16": origin})
    session, effects = prepare(job(), plan, CPU, {"autocast-fp16": origin})
    assert [row.word for row in effects] == ["refused", "in effect"]
    assert effects[0].origin == origin
    assert "40 to 100 times slower" in effects[0].how
    assert session.scaler is None
    assert all(np.isfinite(losses(session)))


def test_what_finds_nothing_to_change_is_not_needed_here() -> None:
    session, effects = ready(Use.of("fused-adamw"), of=job(optimizer=sgd))
    assert [row.word for row in effects] == ["not needed here"]
    assert effects[0].how == techniques.get("fused-adamw").nothing
    assert all(np.isfinite(losses(session)))


@typed
def test_what_finds_nothing_to_change_is_an_error_when_it_was_typed(origin: str) -> None:
    plan = PLAN.plus("fused-adamw")
    with pytest.raises(PlanError, match="fused-adamw has no effect here: the optimizer is not"):
        prepare(job(optimizer=sgd), plan, CPU, {"fused-adamw": origin})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (Use.of("fused-adam"), "did you mean fused-adamw"),
        (Use.of("sdpa", kernel="flash"), "no choice 'kernel'; its choices: backend"),
        (Use.of("gc-freeze", now=True), "no choice 'now'; its choices: none"),
        (Use.of("sdpa", backend="flsh"), "backend='flsh' is not one of auto, flash"),
        (Use.of("threads", count=-1), "count=-1 is not one of"),
        (Use.of("threads", count=True), "count=True is not one of"),
        (Use.of("threads", count=2.0), r"count=2\.0 is not one of"),
        (Use.of("threads", count="2"), "count='2' is not one of"),
    ],
    ids=str,
)
def test_a_wrong_id_choice_or_value_is_an_error_whoever_asked(use: Use, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check(replace(PLAN, techniques=(use,)), CPU, {use.id: "auto"})


def test_a_count_that_is_not_in_the_list_is_a_count_all_the_same() -> None:
    check(PLAN.plus("threads", count=3), replace(CPU, cores=4.0), {"threads": "--with"})


def test_techniques_that_exclude_each_other_are_an_error() -> None:
    plan = PLAN.plus("autocast-bf16").plus("autocast-fp16")
    with pytest.raises(PlanError, match="exclude each other"):
        check(plan, CPU, {})


def planted(apply: Callable[[Session], int], **changes: Any) -> Technique:
    whole = Technique(
        id="planted",
        title="planted",
        stage=Stage.MODEL,
        numerics=Numerics.BITWISE,
        apply=apply,
        read_back=lambda session: "it is there",
        nothing="nothing to do",
    )
    return replace(whole, **changes)


def with_planted(technique: Technique, origin: str) -> tuple[Session, list[Effect]]:
    known = [technique, *techniques.ALL]
    return prepare(job(), PLAN.plus("planted"), CPU, {"planted": origin}, known=known)


def test_a_technique_for_scripts_is_not_for_the_engine() -> None:
    only = planted(lambda session: 1, hosts=frozenset({HostKind.SCRIPT}))
    with pytest.raises(PlanError, match="hotloop run"):
        with_planted(only, "auto")


def test_what_cannot_be_read_back_is_backed_out_and_refused() -> None:
    undone = []

    def apply(session: Session) -> int:
        session.undo["planted"] = lambda: undone.append(True)
        return 1

    technique = planted(apply, read_back=lambda session: None)
    session, effects = with_planted(technique, "auto")
    assert [(row.word, row.how) for row in effects] == [
        ("refused", "it was applied but cannot be read back")
    ]
    assert undone == [True]
    assert session.undo == {}
    with pytest.raises(PlanError, match="cannot be read back"):
        with_planted(technique, "--with")


def test_an_error_in_the_middle_puts_the_switches_of_the_process_back() -> None:
    def fails(session: Session) -> int:
        assert torch.get_num_threads() != before
        raise ZeroDivisionError

    before = torch.get_num_threads()
    plan = PLAN.plus("threads", count=before + 1).plus("gc-freeze").plus("planted")
    machine = replace(CPU, cores=before + 1.0)
    with pytest.raises(ZeroDivisionError):
        prepare(job(), plan, machine, {}, known=[planted(fails), *techniques.ALL])
    assert torch.get_num_threads() == before


def test_techniques_are_applied_by_stage_and_the_optimizer_is_built_late() -> None:
    seen = []

    def at(stage: Stage) -> Technique:
        def apply(session: Session) -> int:
            seen.append((stage, session.optimizer is not None))
            return 1

        return planted(apply, id=f"{9 - stage}", stage=stage)  # ids in the opposite order

    stages = [at(stage) for stage in Stage]
    plan = replace(PLAN, techniques=tuple(Use.of(technique.id) for technique in stages))
    session, effects = prepare(job(), plan, CPU, {}, known=stages)
    assert seen == [(stage, stage >= Stage.OPTIMIZER) for stage in Stage]
    assert [row.word for row in effects] == ["in effect"] * len(Stage)
    assert session.optimizer is not None


def test_equal_seeds_give_equal_weights_whatever_ran_before() -> None:
    torch.rand(5)
    one, _ = ready()
    torch.rand(7)
    other, _ = ready(Use.of("sdpa", backend="naive"))
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name])


# The first, compiling call.


def no_compiler(graph: Any, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    raise RuntimeError("no compiler in the house\nand none next door")


def forward_only(graph: Any, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    return make_boxed_func(graph.forward)


def lost(graph: Any, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    raise Dropped


class FailsWhenEvaluating:
    """Compiles what trains, and fails at the graph without gradients."""

    def __call__(self, graph: Any, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        if not torch.is_grad_enabled():
            raise ValueError("no gradient")
        compiled: Callable[..., Any] = graph.forward
        return compiled


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (no_compiler, "no compiler in the house"),
        (aot_autograd(fw_compiler=no_compiler), "no compiler in the house"),
        (aot_autograd(fw_compiler=forward_only, bw_compiler=no_compiler), "no compiler"),
        (FailsWhenEvaluating(), "no gradient"),
    ],
    ids=["forward", "forward of autograd", "backward only", "evaluation only"],
)
def test_a_failed_compilation_falls_back_to_eager_with_equal_losses(
    backend: Any, message: str
) -> None:
    plain, _ = ready()
    expected = losses(plain)
    session, effects = ready()
    compiling.apply(session, backend=backend)
    waiting = Effect(technique="compile", origin="--with", word="in effect", how="at first call")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    failure = warm_up(session, first_batch(session))
    assert failure is not None
    assert message in failure
    assert "\n" not in failure
    assert torch.equal(torch.get_rng_state(), before)
    assert "compile" not in session.undo
    assert all(block._compiled_call_impl is None for block in session.model.blocks)
    (row,) = after_warm_up([waiting], session, failure)
    told = f"fell back to eager: {failure} (hotloop explain compile-fails)"
    assert (row.word, row.how) == ("refused", told)
    assert effects == []
    again, _ = ready()  # the same random state as the plain run began with
    again.forward, again.model, again.optimizer = session.forward, session.model, session.optimizer
    assert losses(again) == expected


def test_typed_compilation_falls_back_too() -> None:
    technique = replace(
        compiling.TECHNIQUE, apply=lambda session: compiling.apply(session, backend=no_compiler)
    )
    plan, origins = PLAN.plus("compile"), {"compile": "--with"}
    session, effects = prepare(job(), plan, CPU, origins, known=[technique])
    assert [(row.word, row.how) for row in effects] == [
        ("in effect", "takes effect at the first call")
    ]
    failure = warm_up(session, first_batch(session))
    (row,) = after_warm_up(effects, session, failure)
    assert row.word == "refused"
    assert row.how.startswith("fell back to eager: BackendCompilerFailed: backend=")


def test_a_signal_in_the_compiler_is_a_signal_and_no_failed_compilation() -> None:
    session, _ = ready()
    compiling.apply(session, backend=lost)
    with pytest.raises(Dropped):
        warm_up(session, first_batch(session))
    session.undo["compile"]()


def test_an_error_of_the_model_is_raised_and_not_blamed_on_the_compiler() -> None:
    def broken(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
        next_token_loss(model, tensors)
        raise KeyError("labels")

    session, _ = ready(Use.of("compile", backend="aot_eager"), of=job(loss=broken))
    with pytest.raises(KeyError, match="labels"):
        warm_up(session, first_batch(session))
    plain, _ = ready(of=job(loss=broken))
    with pytest.raises(KeyError, match="labels"):
        warm_up(plain, first_batch(plain))


def test_out_of_memory_is_left_to_the_loop_and_the_model_stays_compiled() -> None:
    def hungry(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
        next_token_loss(model, tensors)
        raise torch.OutOfMemoryError("CUDA out of memory")

    session, _ = ready(Use.of("compile", backend="aot_eager"), of=job(loss=hungry))
    assert warm_up(session, first_batch(session)) is None
    assert all(block._compiled_call_impl is not None for block in session.model.blocks)
    session.undo["compile"]()


class Counting(nn.Module):
    """A model with a buffer that every training pass changes."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = Gpt(vocabulary=7, layers=2, heads=2, width=8, context=8, dropout=0.1)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        if self.training:
            self.count += 1
        return self.inner(ids)  # type: ignore[no-any-return]


def test_warming_up_leaves_no_trace_but_compiled_code() -> None:
    session, effects = ready(Use.of("compile", backend="aot_eager"), of=job(model=Counting))
    before = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}
    random = torch.get_rng_state()
    assert warm_up(session, first_batch(session)) is None
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in session.model.parameters())
    assert session.optimizer is not None
    assert not session.optimizer.state
    assert session.model.training
    after = session.model.state_dict()
    assert list(after) == list(before), "no _orig_mod in the names"
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    (row,) = after_warm_up(effects, session, None)
    assert row.word == "in effect"
    assert row.how.startswith("2 blocks, ")
    session.undo["compile"]()


def test_training_and_evaluating_after_the_warm_up_compile_nothing_more() -> None:
    session, _ = ready(Use.of("compile", backend="aot_eager"))
    warm_up(session, first_batch(session))
    told = compiling.read_back(session)
    losses(session)
    session.model.eval()
    with torch.no_grad():
        session.forward(first_batch(session).tensors)
    assert compiling.read_back(session) == told
    session.undo["compile"]()


def test_a_model_that_dynamo_leaves_alone_is_not_in_effect() -> None:
    with torch._dynamo.config.patch(disable=True):
        session, effects = ready(Use.of("compile", backend="aot_eager"))
        failure = warm_up(session, first_batch(session))
        (row,) = after_warm_up(effects, session, failure)
    assert (row.word, row.how) == ("refused", "nothing of the model was compiled")
    session.undo["compile"]()


def test_rows_of_other_techniques_stay_as_they_are() -> None:
    session, effects = ready(Use.of("gc-freeze"))
    assert after_warm_up(effects, session, "a failure") == effects
    session.undo["gc-freeze"]()


# The fp16 scaler's logic; its gate refuses a CPU, its arithmetic does not.


def scaled(scale: float = 2.0**16) -> tuple[Session, NonFiniteGuard]:
    session, _ = ready(of=job(optimizer=sgd))
    session.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return session, NonFiniteGuard(session)


def scaled_step(session: Session, guard: NonFiniteGuard, clip: float = 0.0) -> Tensor:
    loss = accumulate(session, [first_batch(session)], str, int)
    return update(session, guard, loss, clip)


def weights(session: Session) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in session.model.parameters()]


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_gradients_are_unscaled_before_they_are_clipped(clip: float) -> None:
    plain, _ = ready(of=job(optimizer=sgd))
    expected = scaled_step(plain, NonFiniteGuard(plain), clip)
    session, guard = scaled()
    norm = scaled_step(session, guard, clip)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, other in zip(weights(plain), weights(session), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-7)


def test_an_overflow_skips_the_step_and_halves_the_scale() -> None:
    session, guard = scaled(2.0**127)  # times a gradient above 2 this is infinite in float32
    before = weights(session)
    norm = scaled_step(session, guard, 1.0)
    assert not norm.isfinite()
    assert all(torch.equal(a, b) for a, b in zip(before, weights(session), strict=True))
    assert session.scaler is not None
    assert session.scaler.get_scale() == 2.0**126
    assert all(parameter.grad is None for parameter in session.model.parameters())


def test_a_collapsed_scale_is_a_diverged_run_whose_weights_are_as_they_were() -> None:
    session, guard = scaled(4.0)
    before = weights(session)
    inner = session.forward
    session.forward = lambda tensors: inner(tensors) * torch.inf
    scaled_step(session, guard)
    scaled_step(session, guard)
    with pytest.raises(DivergedError, match=r"the fp16 loss scale fell to 0\.5"):
        scaled_step(session, guard)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(session), strict=True))
