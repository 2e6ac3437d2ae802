"""Memory is lent until the last tensor over it is gone."""

import torch

from hotloop.data.sampling.host_buffers import KEPT, Buffers


def test_memory_that_nothing_refers_to_is_lent_again():
    buffers = Buffers()
    array, tensor = buffers.take(2, 3)
    array[...] = 7
    assert tensor.tolist() == [[7] * 3] * 2
    place = tensor.data_ptr()
    view = tensor.view(-1)[2:]
    del array, tensor
    _, other = buffers.take(2, 3)
    assert other.data_ptr() != place, "a view of it is still there"
    del view, other
    places = set()
    for _ in range(5):
        places.add(buffers.take(1, 4)[1].data_ptr())
    assert len(places) == 1


def test_what_is_held_is_never_overwritten():
    buffers = Buffers()
    held = []
    for number in range(3 * KEPT):
        array, tensor = buffers.take(5)
        array[...] = number
        held.append(tensor)
    assert [tensor.unique().tolist() for tensor in held] == [[at] for at in range(3 * KEPT)]


def test_a_wider_batch_takes_the_place_of_a_narrow_one():
    buffers = Buffers()
    for width in (1, 10, 100, 1000, 10_000, 1):
        assert buffers.take(width)[1].shape == (width,)
    assert len(buffers._kept) == 1


def test_an_allocator_that_guards_itself_is_asked_each_time():
    asked = []

    def make(shape):
        asked.append(shape)
        return torch.zeros(shape, dtype=torch.int64)

    buffers = Buffers(make)
    array, tensor = buffers.take(2, 3)
    array[0] = 5
    assert tensor.tolist() == [[5] * 3, [0] * 3]
    buffers.take(1)
    assert asked == [(2, 3), (1,)]
