"""What the calls of some forward passes say."""

from torch import nn

from hotloop.observe.probes import forward_passes
from hotloop.observe.probes.layers import layers
from hotloop.observe.probes.module_calls import Call


def call(module, **facts):
    return Call(module=id(module), **{"parent": -1, "seconds": 0.5, "inputs": (1,), **facts})


def test_a_repeat_counts_where_most_passes_agree():
    root = nn.Sequential(nn.Linear(2, 2))
    one = (call(root[0]), call(root[0]))
    other = (call(root[0]), call(root[0], inputs=(2,)))
    for seen, same in (([one, one, other], True), ([one, other, other], False)):
        [repeat] = forward_passes.repeats(seen, layers(root))
        assert (repeat.calls, repeat.repeated, repeat.seconds) == (2.0, same, 1.0)


def test_only_the_calls_that_repeat_an_input_count():
    root = nn.Sequential(nn.Linear(2, 2))
    calls = tuple(call(root[0], inputs=(n,)) for n in (0, 1, 2, 1, 3, 1))
    [repeat] = forward_passes.repeats([calls], layers(root))
    assert (repeat.calls, repeat.repeated) == (6.0, 2)


def test_where_sums_are_known_they_decide():
    root = nn.Sequential(nn.Linear(2, 2))
    sampled = [call(root[0]), call(root[0])]
    summed = [call(root[0], inputs=(1, 5), summed=True), call(root[0], inputs=(1, 6), summed=True)]
    [repeat] = forward_passes.repeats([sampled, sampled, summed], layers(root))
    assert not repeat.repeated


def test_only_the_outermost_frozen_module_is_named():
    root = nn.Sequential(nn.Sequential(nn.Linear(2, 2)).requires_grad_(False), nn.Linear(2, 2))
    seen = (call(root[0]), call(root[0][0], parent=0), call(root[1], requires=True))
    assert [repeat.module for repeat in forward_passes.repeats([seen], layers(root))] == ["0"]
    assert forward_passes.frozen_seconds([seen], layers(root)) == 0.5
    assert (
        forward_passes.frozen_seconds([seen], layers(root), {id(root[0]), id(root[0][0])}) is None
    )


def test_a_frozen_module_behind_a_trainable_one_is_not_frozen():
    root = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    seen = (call(root[0], requires=True), call(root[1], moving=True, requires=True))
    assert forward_passes.repeats([seen], layers(root)) == []


def test_modules_whose_weights_are_used_are_not_unused():
    root = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "tied": nn.Linear(2, 2)})
    root["tied"].weight = root["a"].weight
    root["tied"].bias = None
    known = layers(root)
    never = forward_passes.never_called(known, {id(root["a"])}, set())
    assert [known[number].name for number in never] == ["b"]
    assert forward_passes.numbers_of(known, never, {id(root["a"])}) == 6
    assert forward_passes.never_called(known, {id(root["a"])}, {id(root["b"].weight)}) == []
    assert forward_passes.never_called(known, set(), set()) == []  # nothing inside was seen


def test_a_bias_before_a_batch_norm_is_counted():
    root = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1), nn.ReLU())
    assert forward_passes.bias_before_norm([tuple(map(call, root))], layers(root)) == 1


def test_operations_are_those_of_layers_whose_products_are_known():
    root = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    seen = (call(root[0], made=16), call(root[3], made=2, moving=True))
    assert forward_passes.flops([seen], layers(root)) == 2 * 27 * 16 * 2 + 2 * 16 * 2 * 3
    root.requires_grad_(False)
    assert forward_passes.flops([seen[:1]], layers(root)) == 2 * 27 * 16
    assert forward_passes.flops([seen], layers(nn.Sequential(nn.LSTM(2, 2)))) is None
    assert forward_passes.flops([], layers(root)) is None


def test_seconds_of_some_modules_are_the_median_pass():
    root = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    seen = [(call(root[0], seconds=s), call(root[1])) for s in (0.1, 0.3, 0.2)]
    assert forward_passes.seconds_of({id(root[0])}, seen) == 0.2
    assert forward_passes.seconds_of(set(), seen) is None
