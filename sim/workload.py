"""A workload: the submitted jobs, as columns; read by sim/traces*.py, run by sim/engines.py.

One row is one job, in the order of submission (ties: by job id). -1 means unknown. Times are whole seconds from the
beginning of the log. Filters are the protocols of published results: the selection of rows, the processors of a job,
and corrections. A window is a part of a workload.

Deliberately absent: names of partitions, applications, dependencies. Logs rarely have them, and no engine uses them yet.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

# Any: columns by name, of numbers of several types
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.values.errors import BadValue
from penstock.values.fields import made_of

_Column = NDArray[np.int64]
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Workload:
    """The columns, all of one length."""

    name: str
    job_id: _Column
    submit_s: _Column
    run_s: _Column
    requested_s: _Column  # the requested time limit
    procs: _Column  # requested, or allocated if the request is not known
    allocated: _Column  # allocated processors
    wait_s: _Column  # on the real machine
    user: _Column  # index into user_names
    group: _Column  # group or account, as a number
    nodes: _Column
    mem_mb: _Column  # of the whole job
    gpu_milli: _Column  # thousandths of a GPU
    user_names: tuple[str, ...] = ()
    group_names: tuple[str, ...] = ()
    processors: int = UNKNOWN  # of the machine, from the log
    skipped: dict[str, int] = field(default_factory=dict)  # reason for skipping rows of the log -> their number
    doubts: dict[str, int] = field(default_factory=dict)  # what is odd about jobs that were kept -> their number

    def __len__(self) -> int:
        return len(self.job_id)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "Workload":
        """Some of the rows: a mask, or indexes in order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def in_order(self) -> "Workload":
        """The same by submit time, then id."""
        return self.select(np.lexsort((self.job_id, self.submit_s)))

    def doubted(self, rules: list[tuple[str, NDArray[np.bool_]]]) -> "Workload":
        """Counts the rows of the masks as odd, and keeps them."""
        found = {doubt: int(rows.sum()) for doubt, rows in rules if rows.any()}
        return replace(self, doubts=self.doubts | found)

    def without(self, rules: list[tuple[str, NDArray[np.bool_]]]) -> "Workload":
        """Drops the rows of the masks; the first reason counts."""
        kept = np.ones(len(self), dtype=bool)
        skipped = dict(self.skipped)
        for reason, rows in rules:
            if count := int((kept & rows).sum()):
                skipped[reason] = skipped.get(reason, 0) + count
            kept &= ~rows
        return replace(self.select(kept), skipped=skipped)


COLUMNS = tuple(f.name for f in fields(Workload) if f.type is _Column or f.type == "_Column")


def from_columns(name: str, **known: Any) -> Workload:
    """Builds a workload from some columns; others are UNKNOWN, processors are the requested or allocated ones."""
    count = len(known["job_id"])
    columns: dict[str, _Column] = {
        c: np.asarray(known.pop(c, np.full(count, UNKNOWN)), dtype=np.int64) for c in COLUMNS
    }
    columns["procs"] = np.where(columns["procs"] > 0, columns["procs"], columns["allocated"])
    return made_of(Workload, {"name": name, **columns, **known}).in_order()


def user_numbers(workload: Workload) -> _Column:
    """Numbers users from 0 on. Each unnamed user gets a separate number: nothing can be learned from them."""
    unknown = workload.user < 0
    others = int(workload.user.max(initial=UNKNOWN)) + np.cumsum(unknown)
    return np.where(unknown, others, workload.user)


# -- filters

Filter = Callable[[Workload, int], Workload]


def usable(workload: Workload, processors: int) -> Workload:
    """The jobs that can run: a known run time, no more processors than the machine has. Unknown requests become the run
    time."""
    kept = workload.without(
        [
            ("no run time", workload.run_s < 0),
            ("no number of processors", workload.procs < 1),
            ("more processors than the machine has", workload.procs > processors),
        ]
    )
    return replace(kept, requested_s=np.where(kept.requested_s > 0, kept.requested_s, np.maximum(kept.run_s, 1)))


def sc15(workload: Workload, processors: int) -> Workload:
    """The SC'15 study's: also without jobs that did not run or have no request; run times end at the request."""
    kept = workload.without(
        [
            ("no number of processors", workload.procs < 1),
            ("more processors than the machine has", workload.procs > processors),
            ("no run time, or 0", workload.run_s < 1),
            ("no requested time", workload.requested_s < 1),
        ]
    )
    return replace(kept, run_s=np.minimum(kept.run_s, kept.requested_s))


def batsim(workload: Workload, processors: int) -> Workload:
    """That of the cross-check with Batsim: every row whose submit, wait, run and allocated fields are known."""
    kept = workload.without(
        [
            (
                "submit, wait or run time not known",
                np.minimum(workload.submit_s, np.minimum(workload.wait_s, workload.run_s)) < 0,
            ),
            ("allocated processors not known", workload.allocated < 1),
            ("more processors than the machine has", workload.procs > processors),
        ]
    )
    return replace(kept, requested_s=np.where(kept.requested_s > 0, kept.requested_s, np.maximum(kept.run_s, 1)))


FILTERS: dict[str, Filter] = {"usable": usable, "sc15": sc15, "batsim": batsim}


# -- windows

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def window(workload: Workload, text: str) -> Workload:
    """`A:B`: the jobs from number A to before number B, or with units (`10d:20d`) those submitted in that time.

    Numbers count from 0, times from the first submission; either end may be left out.
    """
    low, colon, high = text.partition(":")
    try:
        if not colon:
            raise ValueError
        if (low[-1:] or "0") in _UNITS_S or (high[-1:] or "0") in _UNITS_S:
            since_s = workload.submit_s - workload.submit_s[:1].sum()
            rows = (since_s >= _length_s(low, 0)) & (since_s < _length_s(high, np.iinfo(np.int64).max))
        else:
            number = np.arange(len(workload))
            rows = (number >= int(low or 0)) & (number < int(high or len(workload)))
    except ValueError:
        raise BadValue(f"window {text!r}: write numbers of jobs, 0:5000, or times with s, m, h, d, 10d:20d") from None
    if not rows.any():
        raise BadValue(f"window {text!r}: no job of {len(workload)} is in it")
    return workload.select(rows)


def _length_s(text: str, default_s: int) -> int:
    if text in ("", "0"):
        return int(text or default_s)
    return int(text[:-1]) * _UNITS_S.get(text[-1], 0) if text[-1] in _UNITS_S else int("x")
