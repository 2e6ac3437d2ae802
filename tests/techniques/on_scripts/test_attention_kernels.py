import pytest
import torch
from torch import Tensor, nn

from hotloop.core.hardware import Hardware
from hotloop.models.gpt import Gpt
from hotloop.session.session import Session
from hotloop.techniques.on_scripts.attention_kernels import (
    attention_modules,
    first_that_runs,
    kernel_of,
)

FLASH = "scaled_dot_product_flash_attention_for_cpu"


def a_session(model: nn.Module | None = None, *wrapped: str) -> Session:
    return Session(
        job=None,  # type: ignore[arg-type] # nothing here reads it
        hardware=Hardware(device="cpu", name="a CPU"),
        device=torch.device("cpu"),
        model=model or Gpt(vocabulary=7, layers=3, heads=2, width=8, context=16),
        micro_batch=4,
        accumulation=1,
        forward=lambda tensors: torch.zeros(()),
        wrapped=list(wrapped),
    )


class Picky(nn.Module):
    """Attention whose back ends do as their names say; keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.heads, self.context, self.head_width = "auto", 2, 16, 4
        self.seen: list[Tensor] = []

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.seen.append(q)
        if self.attention == "broken":
            raise RuntimeError("CUDA error: an illegal memory access; kernel errors may come late")
        if self.attention == "backward":
            return Refusing.apply(q + k + v)  # type: ignore[no-any-return,no-untyped-call]
        if self.attention != "auto":
            raise RuntimeError("No available kernel. Aborting execution.")
        return q + k + v


class Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        raise RuntimeError("No available kernel for the backward pass")


def test_attention_modules_are_those_that_can_be_switched() -> None:
    assert len(attention_modules(a_session().model)) == 3
    assert attention_modules(nn.Sequential(nn.Linear(2, 2))) == []


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [("auto", FLASH), ("flash", FLASH), ("math", "written-out"), ("naive", "written-out")],
)
def test_the_kernel_that_ran_is_named(backend: str, kernel: str) -> None:
    session = a_session()
    module = attention_modules(session.model)[1]
    module.attention = backend
    assert kernel_of(session, module).startswith(kernel)


def test_the_first_back_end_that_runs_is_taken_and_the_module_is_left_as_it_was() -> None:
    session = a_session()
    module = attention_modules(session.model)[0]
    module.attention = "naive"
    for order, taken in (
        (("efficient", "cudnn", "flash", "math"), "flash"),
        (("efficient", "cudnn", "math"), "math"),
        (("naive", "flash"), "naive"),
        (("efficient", "cudnn"), "auto"),
        ((), "auto"),
    ):
        assert first_that_runs(session, module, order) == taken
        assert module.attention == "naive"


def test_a_back_end_without_a_backward_pass_does_not_run() -> None:
    assert first_that_runs(a_session(), Picky(), ("backward", "cudnn")) == "auto"


def test_an_error_that_is_no_missing_kernel_is_raised() -> None:
    module = Picky()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        first_that_runs(a_session(), module, ("broken", "flash"))
    assert module.attention == "auto"


@pytest.mark.parametrize(
    ("wrapped", "dtype"),
    [
        ([], torch.float32),
        (["autocast-bf16"], torch.bfloat16),
        (["autocast-fp16"], torch.float16),
    ],
)
def test_it_runs_at_the_shape_and_number_format_of_training(
    wrapped: list[str], dtype: torch.dtype
) -> None:
    module = Picky()
    kernel_of(a_session(None, *wrapped), module)
    (q,) = module.seen
    assert (tuple(q.shape), q.dtype) == ((2, 2, 16, 4), dtype)


def test_looking_draws_nothing_from_the_random_stream_and_leaves_no_gradient() -> None:
    session = a_session()
    before = torch.get_rng_state()
    with torch.no_grad():  # as a caller may have it
        kernel_of(session, attention_modules(session.model)[0])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in session.model.parameters())
