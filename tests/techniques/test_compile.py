from functools import partial

import pytest
import torch
from tests.golden.outside import Block, put_into, script

from hotloop.techniques.compile import _compiled_or_eager


def raising(graph, inputs):
    raise NotImplementedError("this compiler knows no such graph")


def test_a_graph_that_cannot_be_compiled_runs_in_eager_mode_and_is_said() -> None:
    troubles: list[str] = []
    net, x = Block().eval(), torch.randn(2, 16)
    expected = net(x)
    net.compile(backend=partial(_compiled_or_eager, raising, troubles))
    assert torch.equal(net(x), expected)
    net(x).sum().backward()
    assert net.inner.weight.grad is not None
    assert troubles == [
        "a graph fell back to eager: NotImplementedError: this compiler knows no such graph "
        "(hotloop explain compile-fails)"
    ]
    torch._dynamo.reset()


def test_a_mode_that_replays_graphs_is_refused_in_a_script() -> None:
    _, effects = put_into(lambda: script(epochs=1), "compile:mode=max-autotune")
    assert effects["compile"].word == "refused"
    assert "may accumulate gradients" in effects["compile"].how


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_script_that_compiles_itself_is_left_alone() -> None:
    def itself() -> None:
        net = torch.compile(torch.nn.Linear(3, 1), backend="eager")
        net(torch.randn(2, 3)).sum().backward()

    _, effects = put_into(itself, "compile:backend=aot_eager")
    assert effects["compile"].how == "the script compiles its model itself"
