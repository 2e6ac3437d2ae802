"""Golden cases of G12 elementwise."""

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import Operator


def operators(small: float) -> tuple[Operator, ...]:
    return (
        Operator(
            name="aten::gelu", shapes="", seconds=0.002, share=small / 2, calls=12, device="cuda"
        ),
        Operator(
            name="aten::add_", shapes="", seconds=0.002, share=small / 2, calls=48, device="cuda"
        ),
        Operator(name="aten::mm", shapes="", seconds=0.004, share=0.4, calls=48, device="cuda"),
    )


POSITIVE = [on_gpu(profiled=True, operators=operators(0.5))]
NEGATIVE = [on_gpu(profiled=True, operators=operators(0.3)), on_gpu(operators=operators(0.5))]
