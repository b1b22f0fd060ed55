"""Parses --acctg-freq, the sampling interval of a job's processes: `30`, `task=30`, `task=30,energy=10`.

Intervals are in seconds; 0 samples at the end only. Of Slurm's data types only `task` has an effect; the others are
validated and ignored.
"""

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

DATA_TYPES = ("task", "energy", "network", "filesystem", "gpu")
INTERVAL_S_MAX = 65_533


def task_interval_s(text: str) -> int | None:
    """Returns the sampling interval of tasks in seconds, or None if `text` has none. Raises BadValue."""
    found = None
    for word in text.split(","):
        kind, _, number = word.partition("=") if "=" in word else ("task", "=", word)
        if kind.lower() not in DATA_TYPES:
            raise BadValue(f"Invalid --acctg-freq {shown(text)}: write {'=S, '.join(DATA_TYPES)}=S")
        interval_s = parse_int(number, 0, INTERVAL_S_MAX, "--acctg-freq")
        if kind.lower() == "task":
            found = interval_s
    return found
