"""What each technique does to the numbers, against the plain run, in the engine's own code path.

Gates are taken away, because arithmetic does not depend on what is fast: fp16 with its scaler runs
on a CPU too, only slowly. So every technique of ALL is held to its promise on every machine.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from tests.golden.jobs import text
from tests.golden.recordings import CalledAgain
from tests.golden.techniques import choices_of, examples_of, file_of, load, text_of
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from hotloop import techniques
from hotloop.config.common import Training
from hotloop.config.derive_plan import derive_plan
from hotloop.core.effect import Effect
from hotloop.core.plan import Plan, Use, Value
from hotloop.core.sharding_ids import SHARING
from hotloop.engine.apply_plan import after_warm_up, prepare, undo, warm_up
from hotloop.engine.graphs.trial import record
from hotloop.engine.lr_schedule import schedule
from hotloop.engine.prefetch import Direct, Prefetch, source_of
from hotloop.engine.step import NonFiniteGuard, accumulate, update
from hotloop.machine.detect import detect
from hotloop.session.accumulation_windows import AccumulationWindows, Position
from hotloop.session.batch import Batch
from hotloop.session.job import Job
from hotloop.session.session import Session
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique, anywhere

# Dynamo looks at `.grad` of tensors inside the graph; where warnings are errors it trips over that.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

EXACT = (Numerics.BITWISE, 0.0, 1.0)
STEPS = 10  # what `tolerance` is about
PLAIN = Plan(micro_batch=4, accumulation=2)
RATE = schedule("cosine", peak=1e-3, floor=1e-4, warmup=100, total=5000)  # char-lm's defaults
# Those for several ranks are held to their promise by several: tests/distributed.
ENGINES = tuple(
    technique
    for technique in techniques.ALL
    if HostKind.ENGINE in technique.hosts and technique.id not in SHARING
)
UNGATED = tuple(replace(technique, blocked=anywhere) for technique in ENGINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a few steps did."""

    losses: list[float]
    gradients: dict[str, Tensor]  # of the first step, unscaled; float64, flat
    effects: list[Effect]


def trace(
    plan: Plan = PLAIN,
    known: Sequence[Technique] = UNGATED,
    of: Callable[[], Job] = text,
) -> Trace:
    """Train a few steps as the loop does, then put the process back as it was."""
    made = of()
    session, effects = prepare(made, plan, detect("cpu"), {}, known=known)
    try:
        if "compile" in session.undo:
            failure = warm_up(session, made.train.batch(0, 0, plan.micro_batch))
            effects = after_warm_up(effects, session, failure)
        if session.stepping.graphs:
            outcome = record(
                session, [made.train.batch(0, 0, plan.micro_batch)], recording=CalledAgain()
            )
            effects = after_warm_up(
                effects, session, outcome.failure, of="cuda-graphs", needless=outcome.needless
            )
        return _steps(session, plan, effects)
    finally:
        undo(session)


class Here:
    """A way to the device without a device."""

    def send(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], None]:
        return [tensor.clone() for tensor in tensors], None

    def arrive(self, tensors: Iterable[Tensor], event: None, *, wait: bool = False) -> None:
        pass


def _steps(session: Session, plan: Plan, effects: list[Effect]) -> Trace:
    size = plan.micro_batch * plan.accumulation
    feed = AccumulationWindows(samples=session.job.train, batch_size=size, drop_last=True)
    prefetches = session.loading.prefetch
    source = Prefetch(Direct(feed), Here()) if prefetches else source_of(feed, session)
    at, guard, optimizer = Position(), NonFiniteGuard(session), session.optimizer
    losses: list[float] = []
    gradients: dict[str, Tensor] = {}
    assert optimizer is not None
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE(step)
        loss = accumulate(session, source.window(at, session.micro_batch), str, int)
        gradients = gradients or gradients_of(session)
        update(session, guard, loss, 1.0)
        losses.append(loss.item())
        at = feed.after(at)
        source.prepare(at, session.micro_batch)
    source.close()
    return Trace(losses=losses, gradients=gradients, effects=effects)


def gradients_of(session: Session) -> dict[str, Tensor]:
    scale = session.scaler.get_scale() if session.scaler else 1.0
    named = session.model.named_parameters()
    return {name: p.grad.double().flatten() / scale for name, p in named if p.grad is not None}


@cache
def plain(of: Callable[[], Job] = text) -> Trace:
    return trace(of=of)


def broken_promise(
    one: Trace, other: Trace, numerics: Numerics, tolerance: float, cosine: float
) -> str | None:
    """Return how `other` is further from `one` than was promised, or None."""
    assert numerics is not Numerics.TRAINING, "needs a comparison of longer runs, which is not here"
    if one.gradients.keys() != other.gradients.keys():
        return f"gradients of other tensors: {sorted(one.gradients.keys() ^ other.gradients)}"
    if numerics is Numerics.BITWISE:
        if one.losses != other.losses:
            return "the losses differ"
        differ = [n for n, g in one.gradients.items() if not torch.equal(g, other.gradients[n])]
        return f"the gradients of {differ} differ" if differ else None
    for step, (a, b) in enumerate(zip(one.losses, other.losses, strict=True), 1):
        if not abs(b / a - 1) <= tolerance:
            return f"the loss of step {step} is {b}, the plain run's {a}"
    # A vector that is off by a share of its length has a cosine of 1 - share^2/2, so this is what
    # the cosine allows: a gradient of twice the length has a cosine of 1.
    longer = math.sqrt(2 * (1 - cosine))
    for name, gradient in one.gradients.items():
        found = cosine_similarity(gradient, other.gradients[name], 0).item()
        if not found >= cosine:
            return f"the gradient of {name} has a cosine of 1 - {1 - found:.1e}"
        share = (other.gradients[name].norm() / gradient.norm()).item()
        if not abs(share - 1) <= longer:
            return f"the gradient of {name} is {share:.6f} times as long"
    return None


def promise(*used: Technique) -> tuple[Numerics, float, float]:
    """What several techniques together may do: what the loosest of them may."""
    return (
        max(t.numerics for t in used),
        max(t.tolerance for t in used),
        min(t.cosine for t in used),
    )


def uses_of(technique: Technique) -> list[Use]:
    """Return the technique with the choices that its golden file names, or each of its values."""
    given, every = load(technique), choices_of(technique)
    promised = None if isinstance(given, str) else given.promised
    return [Use.of(technique.id, **c) for c in promised or every[1:] or every]


def where(use: Use) -> Callable[[], Job]:
    """Return the job on which a technique with this choice has an effect."""
    examples = examples_of(techniques.get(use.id))
    return examples.job_with.get(text_of(dict(use.choice)), examples.job)


# What is promised.


def test_the_plain_run_repeats_itself_bit_for_bit() -> None:
    assert broken_promise(plain(), trace(), *EXACT) is None
    assert plain().losses[-1] < plain().losses[0]


@pytest.mark.parametrize(
    "use", [use for technique in ENGINES for use in uses_of(technique)], ids=str
)
def test_it_keeps_its_promise_and_leaves_nothing_behind(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = where(use)
    examples_of(techniques.get(use.id)).stand_in(monkeypatch)
    other = trace(replace(PLAIN, techniques=(use,)), of=of)
    assert [row.word for row in other.effects] != ["refused"], other.effects
    technique = techniques.get(use.id)
    if technique.numerics is not Numerics.TRAINING:  # of that only a longer run could tell
        broken = broken_promise(plain(of), other, *promise(technique))
        assert broken is None, f"{use} breaks what its numerics promise: {broken}"
    left = broken_promise(plain(of), trace(of=of), *EXACT)
    assert left is None, f"after {use} and its undo a plain run is another one: {left}"


@pytest.mark.parametrize("technique", ENGINES, ids=lambda technique: technique.id)
def test_it_changes_something_on_the_job_on_which_it_is_held_to_its_promise(
    technique: Technique, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, said = examples_of(technique), []
    examples.stand_in(monkeypatch)
    for use in uses_of(technique):
        plan = replace(PLAIN, techniques=(use,))
        session, effects = prepare(where(use)(), plan, detect("cpu"), {}, known=UNGATED)
        undo(session)
        said += [f"{row.technique} is {row.word}: {row.how}" for row in effects]
    assert any(" is in effect: " in row for row in said) or examples.needs, (
        f"{file_of(technique)}: give a `job` on which it changes something, or what it `needs`: "
        f"{'; '.join(said)}"
    )


RECOMPUTING = [Use.of("activation-checkpointing", mode=mode) for mode in ("full", "selective")]


@pytest.mark.parametrize("use", RECOMPUTING, ids=str)
@pytest.mark.parametrize(
    "beside",
    [("autocast-bf16", {}), ("sdpa", {"backend": "naive"}), ("compile", {"backend": "aot_eager"})],
    ids=lambda beside: beside[0],
)
def test_recomputing_is_bitwise_beside_other_techniques(
    use: Use, beside: tuple[str, dict[str, Value]]
) -> None:
    plan = PLAIN.plus(beside[0], **beside[1])
    without, with_it = trace(plan), trace(replace(plan, techniques=(*plan.techniques, use)))
    assert {row.word for row in with_it.effects} == {"in effect"}
    assert broken_promise(without, with_it, *EXACT) is None


@pytest.mark.parametrize("id", ["autocast-bf16", "autocast-fp16"])
def test_fewer_bits_are_really_used(id: str) -> None:
    assert trace(PLAIN.plus(id)).losses[0] != plain().losses[0]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own imports
def test_inductor_keeps_the_promise_of_compile() -> None:
    """The one real compilation of the suite; with dropout, whose masks must stay eager's."""
    other = trace(replace(PLAIN, techniques=(Use.of("compile"),)))
    (row,) = other.effects
    if "compiler" in row.how and row.word == "refused":
        pytest.skip(f"no C++ compiler here: {row.how}")
    assert row.word == "in effect", row.how
    assert broken_promise(plain(), other, *promise(techniques.get("compile"))) is None


def test_the_derived_plan_keeps_the_loosest_of_its_promises() -> None:
    plan, _ = derive_plan(
        Training(batch_size=8, accumulation=2, max_steps=STEPS),
        ("auto", 32),
        detect("cpu"),
        origins=dict.fromkeys(
            ("training.precision", "training.use_compile", "training.optim"), "default"
        )
        | {"model.attention": "default"},
        steps=STEPS,
        threads=(1, "as in every test"),
    )
    used = [techniques.get(use.id) for use in plan.techniques]
    assert len(used) > 3
    assert broken_promise(plain(), trace(plan, techniques.ALL), *promise(*used)) is None


@pytest.mark.parametrize("micro_batch", [8, 4, 3, 1])
def test_a_window_of_any_cut_has_the_gradient_of_one_big_batch(micro_batch: int) -> None:
    made = text(dropout=0.0)
    session, _ = prepare(made, Plan(micro_batch=8), detect("cpu"), {})
    feed = AccumulationWindows(samples=made.train, batch_size=8, drop_last=True)
    whole = accumulate(session, feed.window(Position(), 8), str, int)
    expected = gradients_of(session)
    session.model.zero_grad()
    cut = accumulate(session, feed.window(Position(), micro_batch), str, int)
    assert abs(cut.item() / whole.item() - 1) < 1e-6
    for name, gradient in gradients_of(session).items():
        assert (gradient - expected[name]).norm() <= 1e-6 * expected[name].norm(), name


def test_micro_batches_weigh_as_many_targets_as_they_have() -> None:
    """Rows of unequal length, as padding or masks make them: each target counts the same."""
    session, _ = prepare(text(dropout=0.0), Plan(micro_batch=2), detect("cpu"), {})
    window = [ragged(session, first=n, length=length) for n, length in ((0, 32), (2, 5), (4, 17))]
    loss = accumulate(session, window, str, int)
    found = gradients_of(session)
    session.model.zero_grad()
    sums = [
        cross_entropy(
            session.model(batch.tensors["inputs"]).flatten(0, 1),
            batch.tensors["targets"].flatten(),
            reduction="sum",
        )
        for batch in window
    ]
    expected = torch.stack(sums).sum() / sum(batch.targets for batch in window)
    expected.backward()
    assert abs(loss.item() / expected.item() - 1) < 1e-6
    for name, gradient in gradients_of(session).items():
        assert (found[name] - gradient).norm() <= 1e-6 * gradient.norm(), name


def ragged(session: Session, *, first: int, length: int) -> Batch:
    whole = session.job.train.batch(0, first, 2)
    tensors = {name: tensor[:, :length] for name, tensor in whole.tensors.items()}
    return Batch(tensors=tensors, samples=2, tokens=2 * length, targets=2 * length)


# Planted: what `broken_promise` is there to find.


def wrapping(change: Callable[[Tensor, Session], Tensor], like: str, **promised: object) -> Trace:
    """The trace of a planted technique whose forward pass is changed."""

    def apply(session: Session) -> int:
        inner = session.forward
        session.forward = lambda tensors: change(inner(tensors), session)
        return 1

    return planted(apply, stage=Stage.MODEL, like=like, **promised)


def planted(apply: Callable[[Session], int], *, stage: Stage, like: str, **kept: object) -> Trace:
    technique = replace(
        techniques.get(like),
        apply=apply,
        stage=stage,
        choices={},
        read_back=lambda session: "planted",
        **kept,  # type: ignore[arg-type]
    )
    return trace(replace(PLAIN, techniques=(Use.of(like),)), [technique])


def caught(other: Trace, like: str) -> str:
    return broken_promise(plain(), other, *promise(techniques.get(like))) or ""


def test_a_planted_bitwise_claim_of_bf16_is_caught() -> None:
    other = trace(PLAIN.plus("autocast-bf16"))
    assert broken_promise(plain(), other, *EXACT) == "the losses differ"


def test_planted_bf16_that_claims_float32s_rounding_is_caught() -> None:
    other = trace(PLAIN.plus("autocast-bf16"))
    assert caught(other, "sdpa").startswith("the loss of step 1 ")


def test_a_planted_doubled_gradient_is_caught_though_losses_and_cosines_are_equal() -> None:
    """The accumulation bug: AdamW and clipping hide it from every loss."""
    other = wrapping(lambda loss, _: loss + (loss - loss.detach()), like="sdpa")
    assert "times as long" in caught(other, "sdpa")


def test_a_planted_kernel_with_a_wrong_gradient_is_caught_though_its_loss_is_equal() -> None:
    def apply(session: Session) -> int:
        weight = session.model.blocks[0].attention.qkv.weight  # type: ignore[index,union-attr]
        mask = torch.ones_like(weight)
        mask[64:128] = 0  # no gradient reaches the keys
        weight.register_hook(lambda gradient: gradient * mask)
        return 1

    other = planted(apply, stage=Stage.MODEL, like="sdpa")
    assert other.losses[0] == plain().losses[0]
    other = replace(other, losses=plain().losses)
    assert "blocks.0.attention.qkv.weight has a cosine" in caught(other, "sdpa")


def test_a_planted_draw_from_the_random_stream_is_caught() -> None:
    def draw(loss: Tensor, _: Session) -> Tensor:
        torch.rand(1)
        return loss

    assert caught(wrapping(draw, like="gc-freeze"), "gc-freeze") == "the losses differ"
    assert caught(wrapping(draw, like="compile"), "compile").startswith("the loss of step ")


def test_a_planted_optimizer_with_other_mathematics_is_caught() -> None:
    def apply(session: Session) -> int:
        assert session.optimizer is not None
        for group in session.optimizer.param_groups:
            group["betas"] = (0.9, 0.999)
        return 1

    other = planted(apply, stage=Stage.OPTIMIZER, like="fused-adamw")
    assert caught(other, "fused-adamw").startswith("the loss of step ")


def test_a_planted_lost_gradient_is_caught() -> None:
    def apply(session: Session) -> int:
        session.model.norm.requires_grad_(False)  # type: ignore[union-attr,operator]
        return 1

    other = planted(apply, stage=Stage.MODEL, like="sdpa")
    assert "gradients of other tensors: ['norm.weight']" in caught(other, "sdpa")


def test_a_planted_nan_is_caught() -> None:
    losses = [math.nan] * STEPS
    assert "is nan" in caught(replace(plain(), losses=losses), "autocast-bf16")
