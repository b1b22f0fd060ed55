"""Formats numbers as Slurm does: counts per node, `8(x4),2`, and sets, `0-3,7`."""

from collections.abc import Iterable


def compress_counts(counts: Iterable[int]) -> str:
    """Formats one number per node as `8(x4),2`: a run of equal numbers is written once."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def format_ranges(numbers: Iterable[int]) -> str:
    """Formats ascending numbers as `0-3,7`; "" = none."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
