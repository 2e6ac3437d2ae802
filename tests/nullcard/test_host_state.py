"""What lies in host memory goes to a card and comes back, and the host waits for none of it.

Copies are real on a null card, kernels are not.
"""

import pytest

pytestmark = pytest.mark.nullcard

ROUND_TRIP = """
import torch
from hotloop.machine.host_memory import HostArena
from hotloop.machine.round_trip import RoundTrip
sizes = (1000, 1000, 700, 1000, 3)
arena = HostArena(each for size in sizes for each in (size, 2 * size))
pieces = [
    [arena.take(size).fill_(number), arena.take(2 * size).fill_(100 + number)]
    for number, size in enumerate(sizes)
]
trip, seen = RoundTrip(torch.device("cuda", 0)), []
def once():
    seen.clear()
    for number, (one, two) in enumerate(trip.through(pieces)):
        seen.append((one.is_cuda, len(one), len(two)))
        two.copy_(one.new_zeros(len(two)) if number == 1 else two)
once()
facts["waits"] = dict(counted(once).waits)
trip.wait()
facts["seen"] = list(map(list, seen))
facts["pinned"] = all(tensor.is_pinned() for piece in pieces for tensor in piece)
facts["same"] = all(
    bool((one == number).all()) and bool((two == (0 if number == 1 else 100 + number)).all())
    for number, (one, two) in enumerate(pieces)
)
"""

STORE = """
import torch
from hotloop.machine.activation_store import ActivationStore
store = ActivationStore()
weight = torch.nn.Parameter(torch.ones(1024, 1024, device="cuda"))
def once():
    x = torch.randn(2048, 1024, device="cuda", requires_grad=True)
    with store.saving():
        for _ in range(6):
            x = (x @ weight.t()).relu()
    x.sum().backward()
once()
facts["waits"] = dict(counted(once).waits)
moved = store.moved_bytes
once()
facts["moved_mib"] = (store.moved_bytes - moved) / 2**20
facts["free"] = {size: len(free) for size, free in store._pool.items()}
"""


def test_pieces_come_back_as_they_were_left(on_card):
    facts = on_card("rtx4090", ROUND_TRIP).facts
    assert facts["waits"] == {}
    assert facts["pinned"]
    assert facts["seen"] == [[True, n, 2 * n] for n in (1000, 1000, 700, 1000, 3)]
    assert facts["same"]


def test_activations_leave_the_card_and_their_host_memory_is_used_again(on_card):
    facts = on_card("rtx4090", STORE).facts
    assert facts["waits"] == {}
    assert facts["moved_mib"] == 6 * 8  # an output that is the next input moves once
    assert facts["free"] == {str(8 << 20): 6}
