"""Prepares torch for a simulated card, as soon as the script has imported it."""

from hotloop.nullcard import counts as card

__all__ = ["prepare"]


def prepare() -> None:
    """Let the card answer zeros, and let torch's kernels do what cuDNN's code would do.

    That code looks for a card by itself and finds none.
    """
    import torch

    card.read_zeros()
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
