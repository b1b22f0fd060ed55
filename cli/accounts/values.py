"""Validates values of settings as far as the command can, so that an error is reported before any request.

Also describes settings before the confirmation. Numbers and times have Slurm's ranges by penstock/values/limits.py; the
controller validates names (accounts, QOS, users).
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from cli.accounts.grammar import LISTS, OLD_LIMITS, SIGNED
from cli.accounts.tree import wall_text
from cli.base.run import CommandError
from penstock.values.duration import parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.limits import NO_LIMITS, Limit, LimitKind, change
from penstock.values.numbers import parse_int

ADMIN_LEVELS = {"none": "None", "operator": "Operator", "administrator": "Administrator"}
NUMBER_MAX = 2**31 - 1


#: TRES whose names have no slash; of the others the controller knows which there are.
_PLAIN_TRES = frozenset(("cpu", "mem", "energy", "node", "billing", "vmem", "pages"))


class _Refused(Exception):
    """A value that is not one: Slurm's line, and why."""

    def __init__(self, line: str, why: str, *, plain: bool = False) -> None:
        super().__init__(line)
        self.line = line
        self.why = why
        self.plain = plain


def refused(line: str, why: str, after: str, *, plain: bool = False) -> CommandError:
    """The error of a bad value: Slurm's line, which our reason goes on, and the lines that follow it there."""
    head = line if plain else f"sacctmgr: error: {line}"
    return CommandError(head + (f": {why}" if why else "") + after, plain=True)


def checked(
    changes: Mapping[str, str],
    known: Mapping[str, Limit],
    words: Mapping[str, str] = MappingProxyType({}),
    after: Callable[[str], str] | None = None,
) -> dict[str, str]:
    """Validates the settings and returns them as the controller takes them. Raises CommandError in Slurm's words.

    words: those of the line, by key; after: the lines that follow the one about the bad value of a key."""
    found: dict[str, str] = {}
    key = ""
    try:
        for key, value in changes.items():
            _check_one(found, known, key, value, words.get(key, value))
    except _Refused as error:
        if after is None:
            raise CommandError(error.line, plain=error.plain, detail=error.why) from None
        raise refused(error.line, error.why, after(key), plain=error.plain) from None
    return found


def _check_one(found: dict[str, str], known: Mapping[str, Limit], whole: str, value: str, word: str) -> None:
    """Adds one setting to `found`."""
    key, sign = (whole[:-1], whole[-1]) if whole[-1:] in ("+", "-") else (whole, "")
    if sign and key not in LISTS:
        raise CommandError(
            f" Unknown option: {key}{sign}={value}\n {sign}= is for lists: {', '.join(sorted(LISTS))}", plain=True
        )
    if key in OLD_LIMITS:
        key, tres = OLD_LIMITS[key]
        value = f"{tres}={value}"
    if key in known:
        _check_limit(known[key], value, word)
        name = known[key].name
        found[name] = _merged(found[name], value) if name in found and known[key].kind is LimitKind.TRES else value
    elif key in SIGNED and not sign:
        found |= signed_names(key, value)
    else:
        found[key + sign] = _checked_other(key, value)


def signed_names(key: str, value: str) -> dict[str, str]:
    """`gold,normal` as it is; `+gold,-normal` as additions and removals. Raises CommandError for a mixture."""
    found: dict[str, list[str]] = {}
    for name in filter(None, (part.strip() for part in value.split(","))):
        sign = name[0] if name[0] in "+-" and name != "-1" else ""
        found.setdefault(f"{key}{sign}", []).append(name.removeprefix(sign))
    if key in found and len(found) > 1:
        raise CommandError(" You can't use '=' and '+' or '-' in the same line", plain=True)
    return {name: ",".join(names) for name, names in found.items()} or {key: ""}


def _merged(before: str, more: str) -> str:
    """A TRES limit that two settings of one line give: of one TRES the later counts."""
    parts = {part.partition("=")[0].strip().lower(): part for part in f"{before},{more}".split(",")}
    return ",".join(parts.values())


def _check_limit(limit: Limit, value: str, word: str) -> None:
    if limit.kind is LimitKind.TRES:
        names = (part.partition("=")[0].strip().lower() for part in value.split(","))
        if wrong := next((name for name in names if name and "/" not in name and name not in _PLAIN_TRES), ""):
            raise _Refused(f"slurmdb_format_tres_str: no TRES known by type {wrong}", "")
    try:
        change(NO_LIMITS, limit, value)
    except BadValue as error:
        if limit.kind is LimitKind.COUNT:
            raise _Refused(f"Invalid value for {limit.keyword} ({value})", str(error)) from None
        if limit.kind is LimitKind.WALL:
            name = "MaxWall" if limit.keyword.startswith("Max") else limit.keyword
            raise _Refused(f" Bad {name} time format: {word}", str(error), plain=True) from None
        raise _Refused(str(error), "") from None


def _checked_other(key: str, value: str) -> str:
    if key == "fairshare":
        return value.lower() if value.lower() == "parent" else _number("FairShare", value)
    if key == "priority":
        return _number("Priority", value)
    if key == "rawusage" and value.strip() != "0":
        raise CommandError("Raw usage can only be set to 0 (zero)", plain=True)
    if key == "adminlevel":
        return admin_level(value)
    return value


def _number(name: str, value: str) -> str:
    try:
        parse_int(value, -1, NUMBER_MAX, name)
    except BadValue as error:
        raise _Refused(f"Invalid value for {name} ({value})", str(error)) from None
    return value


def admin_level(text: str) -> str:
    """None, Operator or Administrator; it may be abbreviated."""
    low = text.lower()
    for name, level in ADMIN_LEVELS.items():
        if low and name.startswith(low):
            return level
    raise _Refused(f"Invalid value for AdminLevel ({text})", "it is None, Operator or Administrator")


#: The printed settings of an association, in Slurm's order and with its labels.
ASSOC_LABELS = (
    ("fairshare", "Fairshare"), ("grpjobs", "GrpJobs"), ("grpjobsaccrue", "GrpJobsAccrue"), ("grpsubmitjobs", "GrpSubmitJobs"),
    ("grptres", "GrpTRES"), ("grptresmins", "GrpTRESMins"), ("grptresrunmins", "GrpTRESRunMins"), ("grpwall", "GrpWall"),
    ("maxjobs", "MaxJobs"), ("maxjobsaccrue", "MaxJobsPrioAcc"), ("maxsubmitjobs", "MaxSubmitJobs"), ("maxtresperjob", "MaxTRES"),
    ("maxtrespernode", "MaxTRESPerNode"), ("maxtresminsperjob", "MaxTRESMins"), ("maxwalldurationperjob", "MaxWall"),
    ("minpriothreshold", "MinPrioThresh"), ("parent", "Parent"), ("priority", "Priority"), ("qos", "QOS"), ("qos+", "QOS"),
    ("qos-", "QOS"), ("defaultqos", "DefQOS"), ("lend", "Lend"), ("borrow", "Borrow"), ("budget", "Budget"),
)  # fmt: skip
#: Of a QOS.
QOS_LABELS = (
    ("flags", "Flags"), ("flags+", "Flags"), ("flags-", "Flags"), ("gracetime", "GraceTime"), ("grpjobsaccrue", "GrpJobsAccrue"),
    ("grpjobs", "GrpJobs"), ("grpsubmitjobs", "GrpSubmitJobs"), ("grptres", "GrpTRES"), ("grptresmins", "GrpTRESMins"),
    ("grptresrunmins", "GrpTRESRunMins"), ("grpwall", "GrpWall"), ("maxjobsaccrueperaccount", "MaxJobsAccruePerAccount"),
    ("maxjobsaccrueperuser", "MaxJobsAccruePerUser"), ("maxjobsperaccount", "MaxJobsPerAccount"),
    ("maxjobsperuser", "MaxJobsPerUser"), ("maxsubmitjobsperaccount", "MaxSubmitJobsPerAccount"),
    ("maxsubmitjobsperuser", "MaxSubmitJobsPerUser"), ("maxtresperaccount", "MaxTRESPerAccount"),
    ("maxtresperjob", "MaxTRESPerJob"), ("maxtrespernode", "MaxTRESPerNode"), ("maxtresperuser", "MaxTRESPerUser"),
    ("maxtresminsperjob", "MaxTRESMins"), ("maxtresrunminsperaccount", "MaxTRESRUNMinsPerAccount"),
    ("maxtresrunminsperuser", "MaxTRESRUNMinsPerUser"), ("maxwalldurationperjob", "MaxWall"),
    ("minpriothreshold", "MinPrioThresh"), ("mintresperjob", "MinTRESPerJob"), ("preempt", "Preempt"), ("preempt+", "Preempt"),
    ("preempt-", "Preempt"), ("preemptmode", "PreemptMode"), ("preemptexempttime", "PreemptExemptTime"),
    ("priority", "Priority"), ("usagefactor", "UsageFactor"), ("usagethreshold", "UsageThreshold"),
    ("limitfactor", "LimitFactor"),
)  # fmt: skip
_WALLS = frozenset(("grpwall", "maxwalldurationperjob"))
_FACTORS = frozenset(("usagefactor", "usagethreshold", "limitfactor"))


def describe_settings(changes: Mapping[str, str], labels: Iterable[tuple[str, str]], width: int) -> list[str]:
    """The lines that describe the new settings."""
    lines = []
    for key, label in labels:
        if key in changes:
            sign = key[-1] if key[-1] in "+-" else ""
            lines.append(f"  {label:<{width}}= {sign}{_shown(key, changes[key])}")
    return lines


def _shown(key: str, value: str) -> str:
    if value in ("-1", ""):
        return "NONE"
    if key.rstrip("+-") in ("qos", "preempt"):
        return ",".join(sorted(value.split(",")))
    if key in _WALLS:
        seconds = parse_duration_s(value)
        return wall_text(whole_minutes(seconds) // 60) if seconds >= 0 else "NONE"
    return f"{float(value):.4f}" if key in _FACTORS else value
