"""Measured numbers as people read them."""

from __future__ import annotations

from benchmarks.rows import Sizes


def duration(seconds: float | None) -> str:
    """In the unit that leaves one to three digits before the point."""
    if seconds is None:
        return ""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1.0:
            return f"{digits(seconds * factor)} {unit}"
    return f"{digits(seconds * 1e9)} ns"


def round_duration(seconds: float) -> str:
    """Of a tick on an axis: 10 ms and 1.2 s, without zeros after the point."""
    number, unit = duration(seconds).split()
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def part_in_words(part: str) -> str:
    return part.replace("+", " and ")


def memory(count: float | None) -> str:
    """In powers of ten, as the sizes of memory are sold and the bars are meant."""
    if count is None:
        return ""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= factor:
            return f"{digits(count / factor)} {unit}"
    return f"{count:.0f} B"


def digits(value: float) -> str:
    """Three significant digits, never an exponent below a million."""
    if value == 0.0:
        return "0"
    for least, places in ((100.0, 0), (10.0, 1), (0.1, 2)):
        if abs(value) >= least:
            return f"{value:,.{places}f}"
    return f"{value:.2g}"


def share(value: float | None) -> str:
    """Of an error budget: two digits, and never 0.00 for what is not 0."""
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 0.005 or value == 0.0 else f"{value:.0e}"


def percent(value: float | None) -> str:
    """Three digits, so that 39.6 % is not taken for 40 %."""
    if value is None:
        return ""
    return f"{digits(100.0 * value)} %" if not 0.0 < value < 0.001 else "< 0.1 %"


def shown_sizes(sizes: Sizes) -> str:
    """B 8, H 6, n 256, ...; a dropout of 0 is not worth a word."""
    named = [(name, size) for name, size in sizes.items() if not (name == "dropout" and size == 0)]
    return ", ".join(f"{name} {size:,}" if isinstance(size, int) else f"{name} {size:g}" for name, size in named)


def short(size: float) -> str:
    """Along an axis: 4,096 as 4k, since sizes are powers of two."""
    if size >= 1024 and size % 1024 == 0:
        return f"{size // 1024:.0f}k"
    return f"{size:g}" if size < 1e6 else digits(size)
