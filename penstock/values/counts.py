"""Formats numbers per node as Slurm does: `8(x4),2`."""

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
