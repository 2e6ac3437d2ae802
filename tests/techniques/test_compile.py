from functools import partial

import pytest
import torch
from tests.golden.jobs import session_of, text
from tests.golden.machines import cpu
from tests.golden.outside import Block, put_into, script

from hotloop import techniques
from hotloop.core.plan import Plan
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


def test_a_mode_of_inductor_is_refused_with_another_back_end() -> None:
    plan = Plan(micro_batch=1).plus("compile", mode="max-autotune", backend="aot_eager")
    assert "mode of the inductor" in (techniques.get("compile").blocked(cpu(), plan) or "")


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiling_leaves_the_names_of_the_weights() -> None:
    session = session_of()
    before = list(session.model.state_dict())
    techniques.get("compile").apply(session, backend="aot_eager")
    session.forward(session.job.train.batch(0, 0, 2).tensors).backward()
    assert list(session.model.state_dict()) == before
    session.undo["compile"]()
    assert list(session.model.state_dict()) == before


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_graphs_of_an_earlier_session_are_not_counted() -> None:
    technique = techniques.get("compile")
    for width in (8, 16):
        session = session_of(partial(text, width=width))
        technique.apply(session, backend="aot_eager")
        session.forward(session.job.train.batch(0, 0, 2).tensors).backward()
        assert technique.read_back(session) == "2 blocks, 1 graphs, 0 graph breaks"
        session.undo["compile"]()
