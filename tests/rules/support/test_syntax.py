"""The project's code as rules read it."""

import ast

from hotloop.rules.support.syntax import dotted, evaluating, is_constant, keyword, parse, running

SCRIPT = """
import torch

@torch.no_grad()
def validate(model):
    return [model(x).item() for x in valid]

def step(x):
    loss = model(x)
    loss.backward()

def unused():
    nobody()

for epoch in range(2):
    for x in loader:
        step(x)
    with torch.inference_mode():
        check(model)
    validate(model)
"""


def names(*, evaluation: bool = True) -> set[str]:
    code = parse({"train.py": SCRIPT})
    nodes = [node for _, node in running(code, evaluation=evaluation)]
    assert len({id(node) for node in nodes}) == len(nodes)
    return {dotted(node.func) for node in nodes if isinstance(node, ast.Call)}


def test_evaluation_is_found_in_blocks_and_in_decorated_functions():
    lines = [node.lineno for _, node in evaluating(parse({"train.py": SCRIPT}))]
    assert len(lines) == 2


def test_what_runs_in_loops_is_the_batch_loop_its_functions_and_evaluation():
    assert {"step", "loss.backward", "check", "model().item"} <= names()
    assert not {"nobody", "range"} & names()


def test_evaluation_can_be_left_out():
    assert "check" not in names(evaluation=False)
    assert "loss.backward" in names(evaluation=False)


def test_the_forward_of_a_class_runs_if_a_model_is_made_of_it():
    kinds = "".join(
        f"class {name}(nn.Module):\n    def forward(self, x):\n        return {name.lower()}(x)\n"
        for name in ("Used", "Unused")
    )
    code = parse({"train.py": SCRIPT, "kinds.py": kinds})

    def called(*classes: str) -> set[str]:
        nodes = [node for _, node in running(code, classes=classes)]
        return {dotted(node.func) for node in nodes if isinstance(node, ast.Call)}

    assert {"used", "unused"} <= called()  # the classes of the models are not known
    assert {"used", "unused"} & called("Used") == {"used"}


def test_the_loop_over_batches_is_the_inner_one():
    code = parse({"train.py": SCRIPT, "broken.py": "def ("})
    assert [loop.node.lineno for loop in code.inner_loops] == [16]
    assert len(code.modules) == 1


def test_what_a_keyword_gives_is_found_and_told_from_a_constant():
    call = ast.parse("Linear(3, bias=False, device=None, dtype=kind)", mode="eval").body
    assert is_constant(keyword(call, "bias"), False)
    assert not is_constant(keyword(call, "bias"), True)
    assert not is_constant(keyword(call, "device"), False)
    assert ast.unparse(keyword(call, "dtype")) == "kind"
    assert keyword(call, "out") is None
    assert not is_constant(None, False)
