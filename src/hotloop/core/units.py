"""Sizes as people read them."""

__all__ = ["bytes_"]


def bytes_(number: float) -> str:
    """Return bytes as 512 KiB, 1.2 GiB."""
    for limit, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return f"{number:.0f} B"
