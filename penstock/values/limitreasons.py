"""Slurm's reason for each limit (`squeue %r`), and a sentence that explains it. Pure.

Most reasons are composed of the owner of the limit (Assoc or QOS), the limit, and the kind of TRES. Some TRES have a
kind of their own; all others are Unknown. Slurm's spelling is irregular (QOSGrpCpuLimit, QOSGrpCPUMinutesLimit,
AssocGrpMemMinutes, QOSGrpMemoryMinutes), so each family lists its exceptions.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from penstock.values.states import Reason

_KINDS: Final = ("Cpu", "Mem", "Energy", "Node", "Billing", "GRES", "License", "BB", "Unknown")
_BY_TRES: Final = {"cpu": "Cpu", "mem": "Mem", "energy": "Energy", "node": "Node", "billing": "Billing"}
_BY_PREFIX: Final = {"gres": "GRES", "license": "License", "bb": "BB"}
_WHAT: Final = {
    "Cpu": "CPUs", "Mem": "memory", "Energy": "energy", "Node": "nodes", "Billing": "billing units", "GRES": "GRES (GPUs, ...)",
    "License": "licenses", "BB": "burst buffers", "Unknown": "a TRES",
}  # fmt: skip


class Family(NamedTuple):
    """The reasons of one limit. `{P}` is Assoc or QOS, `{K}` the kind of TRES, `{M}` memory as that owner spells it."""

    pattern: str
    odd: dict[str, str]  # exceptions, by kind
    sentence: str  # explanation


#: The limits by TRES, by field of penstock.values.limits.Limits.
OF_TRES: Final[dict[str, Family]] = {
    "grp_tres": Family(
        "{P}Grp{K}", {"Cpu": "{P}GrpCpuLimit", "Mem": "{P}GrpMemLimit", "Node": "{P}GrpNodeLimit"},
        "The jobs of {owner} hold as many {what} as GrpTRES allows.",
    ),
    "grp_tres_min": Family(
        "{P}Grp{K}Minutes", {"Cpu": "{P}GrpCPUMinutesLimit", "Mem": "{P}Grp{M}Minutes"},
        "{Owner} has used up the minutes of {what} that GrpTRESMins allows, or would with this job.",
    ),
    "grp_tres_run_min": Family(
        "{P}Grp{K}RunMinutes", {"Cpu": "{P}GrpCPURunMinutesLimit", "Mem": "{P}Grp{M}RunMinutes"},
        "The running jobs of {owner} may still use as many minutes of {what} as GrpTRESRunMins allows.",
    ),
    "max_tres_per_job": Family(
        "{P}Max{K}PerJob", {"Cpu": "{P}MaxCpuPerJobLimit", "Node": "{P}MaxNodePerJobLimit", "Mem": "{P}Max{M}PerJob"},
        "It requests more {what} than MaxTRESPerJob of {owner} allows.",
    ),
    "max_tres_per_node": Family(
        "{P}Max{K}PerNode",
        {"Mem": "{P}Max{M}PerNode", "Node": "{P}MaxUnknownPerNode", "License": "{P}MaxUnknownPerNode"},
        "It requests more {what} on a node than MaxTRESPerNode of {owner} allows.",
    ),
    "max_tres_min_per_job": Family(
        "{P}Max{K}MinutesPerJob",
        {"Cpu": "{P}MaxCpuMinutesPerJobLimit", "Mem": "{P}Max{M}MinutesPerJob"},
        "It may use more minutes of {what} than MaxTRESMinsPerJob of {owner} allows.",
    ),
    "max_tres_per_user": Family(
        "QOSMax{K}PerUser",
        {"Cpu": "QOSMaxCpuPerUserLimit", "Node": "QOSMaxNodePerUserLimit", "Mem": "QOSMaxMemoryPerUser"},
        "The jobs of its owner in its QOS hold as many {what} as MaxTRESPerUser allows.",
    ),
    "max_tres_per_account": Family(
        "Max{K}PerAccount", {"Mem": "MaxMemoryPerAccount"},
        "The jobs of its account in its QOS hold as many {what} as MaxTRESPerAccount allows.",
    ),
    "max_tres_run_min_per_user": Family(
        "Max{K}RunMinsPerUser", {"Mem": "MaxMemoryRunMinsPerUser"},
        "The running jobs of its owner in its QOS may still use as many minutes of {what} as MaxTRESRunMinsPerUser allows.",
    ),
    "max_tres_run_min_per_account": Family(
        "Max{K}RunMinsPerAccount", {"Mem": "MaxMemoryRunMinsPerAccount"},
        "The running jobs of its account in its QOS may still use as many minutes of {what} as MaxTRESRunMinsPerAccount "
        "allows.",
    ),
    "min_tres_per_job": Family(
        "QOSMin{K}", {"Cpu": "QOSMinCpuNotSatisfied", "Mem": "QOSMinMemory"},
        "It requests fewer {what} than MinTRESPerJob of its QOS requires.",
    ),
}  # fmt: skip

#: The other limits: reason for an association, reason for a QOS ("" = it has no such limit), sentence.
_OTHERS: Final[dict[str, tuple[str, str, str]]] = {
    "grp_jobs": ("AssocGrpJobsLimit", "QOSGrpJobsLimit", "As many jobs of {owner} run as GrpJobs allows."),
    "grp_submit_jobs": (
        "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit", "{Owner} has as many jobs as GrpSubmitJobs allows.",
    ),
    "grp_wall_min": ("AssocGrpWallLimit", "QOSGrpWallLimit", "The jobs of {owner} have run for as long as GrpWall allows."),
    "max_wall_min": (
        "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit", "Its time limit is above MaxWall of {owner}.",
    ),
    "max_jobs": ("AssocMaxJobsLimit", "", "As many jobs of its owner run in its account as MaxJobs allows."),
    "max_submit_jobs": ("AssocMaxSubmitJobLimit", "", "Its owner has as many jobs in its account as MaxSubmitJobs allows."),
    "max_jobs_per_user": (
        "", "QOSMaxJobsPerUserLimit", "As many jobs of its owner run in its QOS as MaxJobsPerUser allows.",
    ),
    "max_jobs_per_account": (
        "", "MaxJobsPerAccount", "As many jobs of its account run in its QOS as MaxJobsPerAccount allows.",
    ),
    "max_submit_jobs_per_user": (
        "", "QOSMaxSubmitJobPerUserLimit", "Its owner has as many jobs in its QOS as MaxSubmitJobsPerUser allows.",
    ),
    "max_submit_jobs_per_account": (
        "", "MaxSubmitJobsPerAccount", "Its account has as many jobs in its QOS as MaxSubmitJobsPerAccount allows.",
    ),
    "usage_threshold": (
        "", "QOSUsageThreshold", "The fair-share factor of its owner is below UsageThreshold of its QOS.",
    ),
}  # fmt: skip


def _kind(tres: str) -> str:
    return _BY_TRES.get(tres) or _BY_PREFIX.get(tres.partition("/")[0], "Unknown")


def _filled(text: str, of_qos: bool, kind: str) -> str:
    owner = "its QOS" if of_qos else "its account or user"
    named = {"P": "QOS" if of_qos else "Assoc", "K": kind, "M": "Memory" if of_qos else "Mem", "what": _WHAT[kind]}
    return text.format(owner=owner, Owner=owner.capitalize().replace("qos", "QOS"), **named)


@lru_cache(maxsize=1024)
def reason_of(field: str, of_qos: bool, tres: str = "") -> Reason:
    """Returns the reason for a limit: its field, whether it is a QOS's, and the TRES of a limit by TRES."""
    if field in _OTHERS:
        return Reason(_OTHERS[field][of_qos])
    kind = _kind(tres)
    family = OF_TRES[field]
    return Reason(_filled(family.odd.get(kind, family.pattern), of_qos, kind))


def sentences() -> dict[Reason, str]:
    """Returns a sentence for each reason."""
    found = {}
    for of_qos in (False, True):
        for words in _OTHERS.values():
            if words[of_qos]:
                found[Reason(words[of_qos])] = _filled(words[2], of_qos, "Unknown")
        for family in OF_TRES.values():
            if of_qos or "{P}" in family.pattern:
                for kind in reversed(_KINDS):
                    word = _filled(family.odd.get(kind, family.pattern), of_qos, kind)
                    found[Reason(word)] = _filled(family.sentence, of_qos, kind)
    return found
