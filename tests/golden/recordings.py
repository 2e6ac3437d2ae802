"""A recording without a GPU: a replay calls the function again, as a CUDA graph would."""

from collections.abc import Callable

from torch import Tensor


class CalledAgain:
    """An `engine.graphs.recording.Recording`; a replay writes its result over the one before."""

    def __call__(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        return self.record(once)

    def record(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        result = once()
        return lambda: result.copy_(once()), result
