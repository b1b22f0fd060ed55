"""Limits of associations and QOS: their names, what they count, and their text form. Pure.

One table defines each limit: sacctmgr(1)'s keyword, the field of `Limits`, the kind, and whether associations and QOS
may have it. Names are Slurm's; `lend` and `borrow` are Penstock's own (the part of an account's GrpTRES that others may
use while it is idle, and how far the account may exceed its own GrpTRES).

Kinds
    COUNT    a whole number: jobs, or a priority
    WALL     minutes
    TRES     amounts by TRES; for Mins limits in TRES minutes

No limit is None (for a count -1, for TRES a missing entry). 0 is a limit. In text, -1 removes a limit.

ctld/core/limits/checks.py defines the meaning of the limits, and checks jobs against them.
"""

from collections.abc import Mapping
from enum import Enum

# Any: each limit has a value of its own kind
from typing import Any, Final, NamedTuple

from penstock.values.duration import parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.fields import made_of
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.tres import TRES_COUNT_MAX, TRES_ITEMS_MAX, format_tres

#: Amounts by TRES, sorted by name: ("cpu", 64), ("gres/gpu", 8). Memory in MB.
Tres = tuple[tuple[str, int], ...]

COUNT_MAX: Final = 2**31 - 1
NO_LIMIT: Final = -1


class LimitKind(Enum):
    """The quantity that a limit counts."""

    COUNT = "count"
    WALL = "minutes"
    TRES = "TRES"


class Limits(NamedTuple):
    """All limits of one association or QOS."""

    grp_jobs: int = NO_LIMIT
    grp_jobs_accrue: int = NO_LIMIT
    grp_submit_jobs: int = NO_LIMIT
    grp_tres: Tres = ()
    grp_tres_min: Tres = ()
    grp_tres_run_min: Tres = ()
    grp_wall_min: int = NO_LIMIT
    max_jobs: int = NO_LIMIT  # for an association: per user below an account
    max_jobs_accrue: int = NO_LIMIT
    max_submit_jobs: int = NO_LIMIT
    max_tres_per_job: Tres = ()
    max_tres_per_node: Tres = ()
    max_tres_min_per_job: Tres = ()
    max_wall_min: int = NO_LIMIT
    min_prio_threshold: int = NO_LIMIT
    # QOS only
    max_jobs_per_user: int = NO_LIMIT
    max_jobs_per_account: int = NO_LIMIT
    max_jobs_accrue_per_user: int = NO_LIMIT
    max_jobs_accrue_per_account: int = NO_LIMIT
    max_submit_jobs_per_user: int = NO_LIMIT
    max_submit_jobs_per_account: int = NO_LIMIT
    max_tres_per_user: Tres = ()
    max_tres_per_account: Tres = ()
    max_tres_run_min_per_user: Tres = ()
    max_tres_run_min_per_account: Tres = ()
    min_tres_per_job: Tres = ()
    # accounts only
    lend: Tres = ()
    borrow: Tres = ()


NO_LIMITS: Final = Limits()


class Limit(NamedTuple):
    """One row of the table. `keyword` is spelled as in sacctmgr; `name` (lower case) is the key everywhere else."""

    keyword: str
    field: str
    kind: LimitKind
    of_assoc: bool
    of_qos: bool
    also: tuple[str, ...] = ()  # aliases, lower case

    @property
    def name(self) -> str:
        """The keyword in lower case: the key in requests, answers and the database."""
        return self.keyword.lower()


_C = LimitKind.COUNT
_W = LimitKind.WALL
_T = LimitKind.TRES
LIMITS: Final = (
    Limit("GrpJobs", "grp_jobs", _C, True, True),
    Limit("GrpJobsAccrue", "grp_jobs_accrue", _C, True, True),
    Limit("GrpSubmitJobs", "grp_submit_jobs", _C, True, True, ("grpsubmit",)),
    Limit("GrpTRES", "grp_tres", _T, True, True),
    Limit("GrpTRESMins", "grp_tres_min", _T, True, True),
    Limit("GrpTRESRunMins", "grp_tres_run_min", _T, True, True),
    Limit("GrpWall", "grp_wall_min", _W, True, True),
    Limit("MaxJobs", "max_jobs", _C, True, False),
    Limit("MaxJobsAccrue", "max_jobs_accrue", _C, True, False),
    Limit("MaxSubmitJobs", "max_submit_jobs", _C, True, False, ("maxsubmit",)),
    Limit("MaxTRESPerJob", "max_tres_per_job", _T, True, True, ("maxtres", "maxtrespj")),
    Limit("MaxTRESPerNode", "max_tres_per_node", _T, True, True, ("maxtrespn",)),
    Limit("MaxTRESMinsPerJob", "max_tres_min_per_job", _T, True, True, ("maxtresmins", "maxtresminspj")),
    Limit("MaxWallDurationPerJob", "max_wall_min", _W, True, True, ("maxwall", "maxwallpj", "maxwallperjob")),
    Limit("MinPrioThreshold", "min_prio_threshold", _C, True, True, ("minprio",)),
    Limit("MaxJobsPerUser", "max_jobs_per_user", _C, False, True, ("maxjobspu", "maxjobs")),
    Limit("MaxJobsPerAccount", "max_jobs_per_account", _C, False, True, ("maxjobspa",)),
    Limit("MaxJobsAccruePerUser", "max_jobs_accrue_per_user", _C, False, True, ("maxjobsaccruepu",)),
    Limit("MaxJobsAccruePerAccount", "max_jobs_accrue_per_account", _C, False, True, ("maxjobsaccruepa",)),
    Limit("MaxSubmitJobsPerUser", "max_submit_jobs_per_user", _C, False, True, ("maxsubmitpu", "maxsubmitjobspu",
          "maxsubmitjobs", "maxsubmit")),
    Limit("MaxSubmitJobsPerAccount", "max_submit_jobs_per_account", _C, False, True, ("maxsubmitpa", "maxsubmitjobspa")),
    Limit("MaxTRESPerUser", "max_tres_per_user", _T, False, True, ("maxtrespu",)),
    Limit("MaxTRESPerAccount", "max_tres_per_account", _T, False, True, ("maxtrespa",)),
    Limit("MaxTRESRunMinsPerUser", "max_tres_run_min_per_user", _T, False, True, ("maxtresrunminspu",)),
    Limit("MaxTRESRunMinsPerAccount", "max_tres_run_min_per_account", _T, False, True, ("maxtresrunminspa",)),
    Limit("MinTRESPerJob", "min_tres_per_job", _T, False, True, ("mintres", "mintrespj")),
    Limit("Lend", "lend", _T, True, False),
    Limit("Borrow", "borrow", _T, True, False),
)  # fmt: skip


def _by_name(of: str) -> dict[str, Limit]:
    found = {limit.name: limit for limit in LIMITS if getattr(limit, of)}
    for limit in LIMITS:
        if getattr(limit, of):
            for name in limit.also:
                found.setdefault(name, limit)
    return found


#: By name and alias.
OF_ASSOC: Final = _by_name("of_assoc")
OF_QOS: Final = _by_name("of_qos")


def change(limits: Limits, limit: Limit, text: str) -> Limits:
    """Returns `limits` with one of them set from text. For TRES only the named ones change. Raises BadValue."""
    if limit.kind is LimitKind.TRES:
        amounts = dict(getattr(limits, limit.field))
        if text in ("", "-1"):
            amounts = {}
        else:
            for name, amount in _tres_changes(text, limit).items():
                if amount == NO_LIMIT:
                    amounts.pop(name, None)
                else:
                    amounts[name] = amount
        return _with(limits, limit, tuple(sorted(amounts.items())))
    if text in ("", "-1"):
        return _with(limits, limit, NO_LIMIT)
    if limit.kind is LimitKind.WALL:
        return _with(limits, limit, _minutes(text, limit))
    return _with(limits, limit, parse_int(text, 0, COUNT_MAX, limit.keyword))


def _with(limits: Limits, limit: Limit, value: int | Tres) -> Limits:
    return made_of(limits._replace, {limit.field: value})


def _minutes(text: str, limit: Limit) -> int:
    try:
        seconds = parse_duration_s(text)
    except BadValue as error:
        raise BadValue(f"Invalid {limit.keyword}: {error}") from None
    return NO_LIMIT if seconds < 0 else whole_minutes(seconds) // 60


def _tres_changes(text: str, limit: Limit) -> dict[str, int]:
    """Like parse_tres, but -1 is "no limit". Raises BadValue."""
    found: dict[str, int] = {}
    items = text.split(",", TRES_ITEMS_MAX)
    if len(items) > TRES_ITEMS_MAX:
        raise BadValue(f"Invalid {limit.keyword}: more than {TRES_ITEMS_MAX} items")
    for item in items:
        name, equals, amount = item.partition("=")
        name = name.strip().lower() if not name.strip().startswith("gres/") else name.strip()
        if not equals or not name:
            raise BadValue(f"Invalid {limit.keyword} {item[:64]!r}: write name=amount, as in cpu=4,mem=100M,gres/gpu=2")
        what = f"{limit.keyword} {name}"
        if amount == "-1":
            found[name] = NO_LIMIT
        elif name == "mem":
            found[name] = parse_mb(amount, what)
        else:
            found[name] = parse_int(amount, 0, TRES_COUNT_MAX, what)
    return found


def texts(limits: Limits) -> dict[str, str]:
    """Formats the limits that are set, by name, in the form that `change` accepts."""
    found = {}
    for limit in LIMITS:
        value = getattr(limits, limit.field)
        if limit.kind is LimitKind.TRES:
            if value:
                found[limit.name] = tres_text(value)
        elif value != NO_LIMIT:
            found[limit.name] = str(value)
    return found


def tres_text(amounts: Tres) -> str:
    """Formats amounts as cpu=64,mem=1G,gres/gpu=8, in Slurm's order."""
    return format_tres(dict(amounts))


def from_texts(found: Mapping[str, str]) -> Limits:
    """Parses the result of `texts`. Unknown names (of a later version) are ignored."""
    limits = NO_LIMITS
    for limit in LIMITS:
        if limit.name in found:
            limits = change(limits, limit, found[limit.name])
    return limits


def get(limits: Limits, limit: Limit) -> Any:
    """Returns the value of a limit."""
    return getattr(limits, limit.field)


__all__ = [
    "COUNT_MAX",
    "LIMITS",
    "NO_LIMIT",
    "NO_LIMITS",
    "OF_ASSOC",
    "OF_QOS",
    "Limit",
    "LimitKind",
    "Limits",
    "Tres",
    "change",
    "from_texts",
    "get",
    "texts",
    "tres_text",
]  # fmt: skip
