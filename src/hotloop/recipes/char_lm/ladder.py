"""The ladder of char-lm: from the loop that people write to hotloop's own choice.

Only the kind of the original project's loop is known: float32, written-out attention, the default
AdamW, a loader that makes each sample in the loop, and small micro batches. An eighth of the batch
stands for "small".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from hotloop.core.plan import Plan
from hotloop.recipes.building.ladder import Claim, Ladder, Rung, as_asked, using
from hotloop.recipes.building.text_rungs import faster_rungs

if TYPE_CHECKING:
    from hotloop.recipes.building.ladder import Spot

__all__ = ["LADDER"]

_PART: Final = 8  # batch size / micro batch size of the original loop
_GATHERED = "published by others, gathered for hotloop's design, 2026-11"
_C1 = "others' measurement, 6 x 384 on 2 cores with AVX512_BF16, torch 2.13, 2026-11"


def _before(below: Plan, spot: Spot) -> Plan:
    del below
    batch = spot.own.micro_batch * spot.own.accumulation
    micro = next(n for n in range(max(1, batch // _PART), 0, -1) if batch % n == 0)
    return Plan(micro_batch=micro, accumulation=batch // micro).plus("sdpa", backend="naive")


def _whole(below: Plan, spot: Spot) -> Plan | str:
    if below.micro_batch >= spot.own.micro_batch:
        return "the micro batch is as large already"
    own = spot.own
    return replace(below, micro_batch=own.micro_batch, accumulation=own.accumulation)


def _by_hand(below: Plan, spot: Spot) -> Plan:
    """Return the best hand-written plan (C1), or that of C2 where there is no bf16."""
    whole = _whole(_before(below, spot), spot)
    plan = _before(below, spot) if isinstance(whole, str) else whole
    plan = plan.plus("fused-adamw").plus("gc-freeze")
    low = using("autocast-bf16")(plan, spot)
    if isinstance(low, str) or spot.hardware.device != "cpu":
        fused = (plan if isinstance(low, str) else low).plus("sdpa", backend="auto")
        products = using("matmul-onednn")(fused, spot)
        return fused if isinstance(products, str) else products
    return low  # attention stays written out


def _compiled(below: Plan, spot: Spot) -> Plan | str:
    return using("compile")(_by_hand(below, spot), spot)


def _claimed(rung: Rung, of: Literal["before", "below"], text: str, source: str) -> Rung:
    return replace(rung, claims=(Claim(of=of, text=text, source=source),))


_products, _low, _fused, _lean, _graphs, _own = faster_rungs(as_asked)
LADDER = Ladder(
    recipe="char-lm",
    judged="own",
    rungs=(
        Rung(id="before", name="plain loop", change=_before, program="plain loop"),
        Rung(id="engine", name="hotloop's loop and feed"),
        Rung(id="micro-batch", name="+ whole micro batch", change=_whole),
        _claimed(
            Rung(id="sdpa", name="+ fused attention", change=using("sdpa", backend="auto")),
            "below",
            "2.1x at length 1024, 0.3x at 128 in bf16",
            _C1,
        ),
        _claimed(_products, "below", "2.27x the products' rate through oneDNN", _C1),
        _claimed(_low, "before", "bf16 + fused attention 2.7x plain", _C1),
        _fused,
        _lean,
        _claimed(
            _graphs,
            "below",
            "5.1x at a tiny batch, 1.01x at a large one",
            _GATHERED,
        ),
        _claimed(
            Rung(id="compile", name="+ compile", change=using("compile")),
            "below",
            "+14..45 % on sm86 to sm120",
            _GATHERED,
        ),
        _claimed(
            Rung(id="hand", name="best written by hand", change=_by_hand, is_top=True),
            "before",
            "3.2x (bf16, 2,454 -> 7,914 tokens/s)",
            _C1,
        ),
        _claimed(
            Rung(id="hand-compiled", name="the same compiled", change=_compiled, is_top=True),
            "before",
            "3.7x (bf16, 2,454 -> 9,107 tokens/s)",
            _C1,
        ),
        _claimed(
            _own,
            "before",
            "5-10x tokens/s, 8 -> 60-85 % utilisation",
            "expected by one of the five projects, never measured",
        ),
    ),
)
