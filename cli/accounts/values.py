"""Validates values of settings as far as the command can, so that an error is reported before any request.

Also describes settings before the confirmation. Numbers and times have Slurm's ranges by penstock/values/limits.py; the
controller validates names (accounts, QOS, users).
"""

from collections.abc import Iterable, Mapping

from cli.accounts.grammar import LISTS, OLD_LIMITS, SIGNED
from cli.accounts.tree import wall_text
from cli.base.run import CommandError
from penstock.values.duration import parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.limits import NO_LIMITS, Limit, LimitKind, change
from penstock.values.numbers import parse_int

ADMIN_LEVELS = {"none": "None", "operator": "Operator", "administrator": "Administrator"}
NUMBER_MAX = 2**31 - 1


def checked(changes: Mapping[str, str], known: Mapping[str, Limit]) -> dict[str, str]:
    """Validates the settings and returns them as the controller takes them. Raises CommandError in Slurm's words."""
    found: dict[str, str] = {}
    for whole, value in changes.items():
        key, sign = (whole[:-1], whole[-1]) if whole[-1:] in ("+", "-") else (whole, "")
        if sign and key not in LISTS:
            raise CommandError(
                f" Unknown option: {key}{sign}={value}\n {sign}= is for lists: {', '.join(sorted(LISTS))}", plain=True
            )
        if key in OLD_LIMITS:
            key, tres = OLD_LIMITS[key]
            value = f"{tres}={value}"
        if key in known:
            _check_limit(known[key], value)
            name = known[key].name
            found[name] = _merged(found[name], value) if name in found and known[key].kind is LimitKind.TRES else value
        elif key in SIGNED and not sign:
            found |= signed_names(key, value)
        else:
            found[key + sign] = _checked_other(key, value)
    return found


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


def _check_limit(limit: Limit, value: str) -> None:
    try:
        change(NO_LIMITS, limit, value)
    except BadValue as error:
        if limit.kind is LimitKind.COUNT:
            raise CommandError(f"Invalid value for {limit.keyword} ({value})", detail=str(error)) from None
        if limit.kind is LimitKind.WALL:
            name = "MaxWall" if limit.keyword.startswith("Max") else limit.keyword
            raise CommandError(f" Bad {name} time format: {value}", plain=True, detail=str(error)) from None
        raise CommandError(str(error)) from None


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
        raise CommandError(f"Invalid value for {name} ({value})", detail=str(error)) from None
    return value


def admin_level(text: str) -> str:
    """None, Operator or Administrator; it may be abbreviated."""
    low = text.lower()
    for name, level in ADMIN_LEVELS.items():
        if low and name.startswith(low):
            return level
    raise CommandError(f"Invalid value for AdminLevel ({text})", detail="it is None, Operator or Administrator")


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
    if key in _WALLS:
        seconds = parse_duration_s(value)
        return wall_text(whole_minutes(seconds) // 60) if seconds >= 0 else "NONE"
    return f"{float(value):.4f}" if key in _FACTORS else value
