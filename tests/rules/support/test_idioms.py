import ast

import pytest

from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import parse

LOOP = """
for epoch in range(3):
    for i, batch in enumerate(loader):
        loss(batch).backward()
        if (i + 1) % every == 0:
            optimizer.step()
            scheduler.step()
    evaluate(model)
torch.save(model.state_dict(), "model.pt")
if done:
    print("done")
    for x in y:
        hidden()
"""


def nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


@pytest.mark.parametrize(
    ("call", "is_one"),
    [
        ("evaluate(model)", True),
        ("self.run_validation(epoch)", True),
        ("estimate_loss()", True),
        ("model.eval()", True),
        ("eval(text)", False),
        ("build_val_loader()", False),
        ("train_test_split(rows)", False),
        ("interval()", False),
    ],
)
def test_what_evaluates_is_told_by_its_name(call, is_one):
    assert bool(idioms.evaluations(nodes(call))) is is_one


@pytest.mark.parametrize(
    ("call", "is_one"),
    [
        ("torch.save(x, path)", True),
        ("save_checkpoint(model)", True),
        ("model.save_pretrained(path)", True),
        ("np.save(path, x)", False),
        ("save_plot(figure)", False),
    ],
)
def test_what_saves_is_told_by_its_name(call, is_one):
    assert bool(idioms.saves(nodes(call))) is is_one


def test_an_every_n_test_has_its_names_and_its_n():
    (test,) = (node for node in nodes(LOOP) if idioms.is_every_n(node))
    assert isinstance(test, ast.If)
    assert idioms.counted(test.test) == {"i"}
    assert idioms.modulus(test.test) == "every"


def test_optimizer_steps_are_no_scheduler_steps_and_their_guard_is_found():
    tree = ast.parse(LOOP)
    (step,) = idioms.optimizer_steps(ast.walk(tree))
    assert idioms.line(step) == 6
    (guard,) = idioms.guards([step], idioms.ancestors(tree))
    assert idioms.line(guard) == 5


def test_what_follows_a_loop_is_the_rest_of_its_block():
    (outer, inner) = parse({"train.py": LOOP}).loops
    tree = outer.module.tree
    assert [idioms.line(s) for s in idioms.following(tree, outer.node)] == [9, 10]
    assert [idioms.line(s) for s in idioms.following(tree, inner.node)] == [8]
    assert len(idioms.optimizer_steps(idioms.own(inner))) == 1


def test_what_runs_once_leaves_loops_and_functions_out():
    body = ast.parse(LOOP).body
    once = {idioms.last_name(n) for n in idioms.unnested(body) if isinstance(n, ast.Call)}
    assert {"save", "print"} <= once
    assert not {"hidden", "backward", "evaluate"} & once


def test_assigned_names_are_those_of_plain_and_augmented_assignments():
    assert idioms.assigned([ast.parse("a, b = 1, 2\nc += 1\nd: int = 3\nprint(e)")]) == {
        *"abcd",
    }


COMPILED = """
import re
from torch import compile as compiled
word = re.compile("a")
model = compiled(Net())

@torch.compile
def step(batch):
    pass

@torch.compile(dynamic=True)
def other(batch):
    pass
"""


def test_compiling_is_a_call_or_a_decorator_of_torch():
    places = idioms.compiling(parse({"a.py": COMPILED}))
    assert {place.line for place in places} == {5, 8, 11}
    assert len(places) == 3
