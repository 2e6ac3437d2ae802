from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.engine.apply_plan import check
from hotloop.machine.onednn_matmul import Products
from hotloop.recipes.building.ladder import Spot, using
from hotloop.techniques import matmul_onednn as technique
from hotloop.techniques.base import HostKind
from hotloop.tuning.moves import ordered

CPU = Hardware(device="cpu", name="a CPU", cores=2.0, cpu_features=frozenset({"avx2"}))
GPU = Hardware(device="cuda", name="a GPU", capability=(8, 0))
GOOD = Products(relative_error=4e-7, same_bits=False, rate=1.9)


@dataclass
class Undo:
    """What the technique needs of a session."""

    undo: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    assert torch.get_float32_matmul_precision() == "highest"
    yield
    torch.set_float32_matmul_precision("highest")


def switched(products: Products, rate: str = "measured") -> bool:
    session = Undo()
    changed = technique.switch(session, products, rate=rate)  # type: ignore[arg-type]
    now = torch.get_float32_matmul_precision()
    assert now == ("medium" if changed else "highest")
    assert bool(technique.read_back(session)) == bool(changed)  # type: ignore[arg-type]
    for back_out in session.undo.values():
        back_out()
    assert torch.get_float32_matmul_precision() == "highest"
    return bool(changed)


@pytest.mark.parametrize(
    ("products", "measured", "higher"),
    [
        (GOOD, True, True),
        (replace(GOOD, rate=1.05), False, True),  # a resumed run does not measure again
        (replace(GOOD, rate=0.7), False, True),
        (replace(GOOD, relative_error=2e-3), False, False),  # bf16 inside, as with AMX
        (replace(GOOD, relative_error=1.1e-6), False, False),
        (replace(GOOD, same_bits=True), False, False),
    ],
)
def test_nothing_changes_unless_products_are_exact_and_faster(
    products: Products, measured: bool, higher: bool
) -> None:
    assert switched(products) is measured
    assert switched(products, "higher") is higher
    assert switched(products, "lower") is False


def test_the_read_back_gives_the_figures() -> None:
    session = Undo()
    technique.switch(session, GOOD)  # type: ignore[arg-type]
    told = technique.read_back(session) or ""  # type: ignore[arg-type]
    assert told.startswith("oneDNN, relative error ")
    assert told.endswith("x the rate of before")


def test_a_switch_that_is_on_already_is_left_on() -> None:
    torch.set_float32_matmul_precision("medium")
    session = Undo()
    assert technique.switch(session, GOOD) == 0  # type: ignore[arg-type]
    assert session.undo == {}


def test_a_trial_times_it_whatever_a_single_product_says() -> None:
    (move,) = (m for m in ordered(CPU, HostKind.ENGINE) if m.ids == ("matmul-onednn",))
    changed = move.change(Plan(micro_batch=1).plus("matmul-onednn", rate="lower"))
    assert changed is not None
    assert changed.choice("matmul-onednn") == {"rate": "higher"}
    spot = Spot(config=None, hardware=CPU, own=changed)
    rung = using("matmul-onednn")(Plan(micro_batch=1), spot)
    assert isinstance(rung, Plan)
    assert rung.choice("matmul-onednn") == {"rate": "higher"}


def test_it_is_for_processors() -> None:
    plan = Plan(micro_batch=1).plus("matmul-onednn")
    assert "oneDNN multiplies on CPUs" in (technique.TECHNIQUE.blocked(GPU, plan) or "")


def test_it_and_tf32_set_one_switch_and_exclude_each_other() -> None:
    with pytest.raises(PlanError, match="exclude each other"):
        check(Plan(micro_batch=1).plus("matmul-onednn").plus("tf32"), CPU, {})
    session, tf32 = Undo(), techniques.get("tf32")
    assert technique.switch(session, GOOD)  # type: ignore[arg-type]
    assert tf32.read_back(session) is None  # type: ignore[arg-type]
    assert tf32.apply(session)
    assert technique.read_back(session) is None  # type: ignore[arg-type]
    for id in ("tf32", "matmul-onednn"):  # the last one first, as prepare.undo does
        session.undo.pop(id)()
    assert torch.get_float32_matmul_precision() == "highest"
