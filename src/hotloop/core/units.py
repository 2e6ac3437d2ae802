"""Formats sizes, durations and rates for people."""

__all__ = ["ago", "bytes_", "count", "duration", "many", "moment"]


def bytes_(number: float) -> str:
    """Return bytes as 512 KiB, 1.2 GiB."""
    for limit, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= limit:
            return f"{_three(number / limit)} {unit}"
    return f"{number:.0f} B"


def duration(seconds: float) -> str:
    """Return seconds as 0.12 s, 9.4 s, 3:05 or 11:02:09."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def ago(seconds: float) -> str:
    """Return a time that has passed as 9.4 s ago, 3:05 ago or 12 days ago."""
    days = int(seconds // 86400)
    return f"{days:,} day{'s' * (days > 1)} ago" if days else f"{duration(seconds)} ago"


def many(number: float, noun: str) -> str:
    """Return 1 row, 2,500 rows, or 1.5 cores."""
    figure = f"{number:,.0f}" if number == int(number) else f"{number:,g}"
    return f"{figure} {noun}{'' if number == 1 else 's'}"


def moment(seconds: float) -> str:
    """Return seconds as 25 us, 0.4 ms, 254 ms or, from 1 s on, as `duration` does."""
    if seconds >= 1:
        return duration(seconds)
    return f"{_three(seconds * 1e3)} ms" if seconds >= 1e-4 else f"{_three(seconds * 1e6)} us"


def count(number: float) -> str:
    """Return a rate or count as 950, 51.7k or 3.52M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{_three(number / limit)}{unit}"
    return _three(number)


def _three(number: float) -> str:
    """Return three digits, or more for 1000 to 1023, but never an exponent."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"
