"""Plain text tables, and numbers with unit prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Format rows under their headers; the first ``left`` columns are left-aligned, the others right-aligned.

    >>> print(table(["operation", "calls"], [["add", "12"], ["matmul", "3"]]))
    operation  calls
    ─────────  ─────
    add           12
    matmul         3
    """
    body = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *body, strict=True)]
    lines = [list(headers), ["─" * width for width in widths], *body]
    return "\n".join(
        "  ".join(
            text.ljust(width) if k < left else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def scaled(value: float, unit: str, step: int = 1000) -> str:
    """Format a number with a unit and its prefix.

    >>> scaled(1_234_000, "FLOP"), scaled(12, "B"), scaled(2048, "B", 1024)
    ('1.23 MFLOP', '12 B', '2.00 KiB')
    """
    prefixes = ("", "Ki", "Mi", "Gi", "Ti") if step == 1024 else ("", "k", "M", "G", "T")
    k = 0
    while k + 1 < len(prefixes) and abs(value) >= step:
        value, k = value / step, k + 1
    return f"{value:.0f} {unit}" if k == 0 else f"{value:.2f} {prefixes[k]}{unit}"


def time_of(seconds: float) -> str:
    """Format a time in s, ms or µs.

    >>> time_of(0.00123), time_of(12e-6), time_of(2.5)
    ('1.23 ms', '12.0 µs', '2.50 s')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
