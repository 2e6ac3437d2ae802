"""A stand-in for torch with a GPU: events pass when the test says so, nothing is computed."""

from types import SimpleNamespace

from hotloop.observe.hooks.event_buffer import EventBuffer
from hotloop.observe.hooks.hooks import Hooks


class Event:
    """Passes when the GPU has come as far as it."""

    def __init__(self, cuda, enable_timing):
        self._cuda, self._timed, self.at = cuda, enable_timing, None

    def record(self, stream):
        assert stream == "stream of cuda:0"
        if self._timed:  # each of these events a millisecond of work after the one before
            self._cuda.queued += 1.0
        self.at = self._cuda.queued

    def synchronize(self):
        self._cuda.done = max(self._cuda.done, self.at)
        self._cuda.waited.append(self.at)

    def query(self):
        return self.at <= self._cuda.done

    def elapsed_time(self, other):
        return other.at - self.at


class Cuda:
    """As much of torch.cuda as is asked for."""

    def __init__(self):
        self.queued = 0.0  # ms of work the host has launched
        self.done = 0.0  # ms of it that the GPU has done
        self.made = 0  # events with times
        self.waited = []  # events that the host waited for
        self.started = self.capturing = False
        self.mode = 0
        self.stats = {}
        self.emptied = 0

    def Event(self, *, enable_timing=False, blocking=False):  # noqa: N802 - torch's name
        assert enable_timing != blocking
        self.made += enable_timing
        return Event(self, enable_timing)

    def current_stream(self, device):
        return f"stream of {device}"

    def is_current_stream_capturing(self):
        return self.capturing

    def is_initialized(self):
        return self.started

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        self.mode = mode

    def memory_stats(self, device):
        return self.stats

    def get_device_properties(self, device):
        return SimpleNamespace(uuid="abc")

    def empty_cache(self):
        self.emptied += 1

    def ipc_collect(self):
        pass

    def synchronize(self, device=None):
        return device


def tensor_class():
    """Return a new class of tensors that know where they are."""

    class Tensor:
        def __init__(self, value=1, device="cpu"):
            self.value, self.device = value, device

        @property
        def is_cuda(self):
            return self.device.startswith("cuda")

        def item(self):
            return self.value

        tolist = numpy = __array__ = __int__ = __index__ = item

        def cpu(self):
            return type(self)(self.value)

        def to(self, device):
            return type(self)(self.value, device)

        def cuda(self):
            return self.to("cuda:0")

        def __bool__(self):
            return bool(self.value)

        def __float__(self):
            return float(self.value)

        def __format__(self, how):
            return format(self.item(), how)  # a wait inside a wait

    return Tensor


def fake_torch():
    """Return a torch with a GPU that has not been used yet."""
    tensor = tensor_class()
    return SimpleNamespace(
        Tensor=tensor,
        cuda=Cuda(),
        nn=SimpleNamespace(Parameter=type("Parameter", (tensor,), {})),
        compiler=SimpleNamespace(is_compiling=lambda: False),
    )


def module_on(device, torch):
    """Return a module with one parameter."""
    return Module([torch.nn.Parameter(1, device)])


class Module:
    """Has parameters, and can be referred to weakly."""

    def __init__(self, parameters):
        self._parameters = parameters

    def parameters(self):
        return iter(self._parameters)


def hooks():
    """Return doors of which none is up."""
    return Hooks(EventBuffer(), SimpleNamespace())
