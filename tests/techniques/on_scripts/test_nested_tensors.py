from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import torch

from hotloop.techniques.on_scripts.nested_tensors import in_float32, mapped

Pair = namedtuple("Pair", "a b")


@dataclass
class Output:
    logits: torch.Tensor
    loss: object = None


def test_every_16_bit_tensor_comes_back_in_float32_in_the_container_it_was_in() -> None:
    low = torch.ones(2, dtype=torch.bfloat16)
    value = (low, [low], {"a": low}, OrderedDict(b=low), Pair(low, 1), Output(low))
    done = in_float32(value)
    a, (b,), c, d, e, f = done
    assert {t.dtype for t in (a, b, c["a"], d["b"], e.a, f.logits)} == {torch.float32}
    assert [type(each) for each in done] == [type(each) for each in value]
    assert f.loss is None


def test_what_is_given_is_not_changed_and_other_types_stay() -> None:
    value = {"ids": torch.ones(2, dtype=torch.long), "n": 3}
    assert in_float32(value) == value
    held = {"x": torch.zeros(1)}
    mapped(held, lambda tensor: tensor + 1)
    assert held["x"] == 0
    thing = object()
    assert mapped(thing, lambda tensor: None) is thing
