"""Slurm's debug flags (slurm.conf(5), DebugFlags): their names, and what controller and node daemons log for each. Pure.

A flag whose subsystem does not exist here, or has nothing to say beyond the log of every day, is accepted and has no
effect; `note` says so. ctld/runtime/debuglog.py and nodedaemon/daemon/debuglog.py make the lines.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.values.errors import BadValue
from penstock.values.text import shown

#: Flag -> what is logged while it is set.
EFFECTS: Final = {
    "Agent": "each command to a node",
    "AuditRPCs": "each request: its method, user, status and time",
    "Backfill": "each full pass: the jobs that it considers, and what it starts, preempts and predicts",
    "Dependency": "jobs that wait for others, whenever they change",
    "Gres": "the GPUs and other devices of each start; reports of nodes about GPUs, and work done to idle ones",
    "JobComp": "each event that is kept for a receiver: job completion, webhooks",
    "License": "the licenses of each start",
    "Network": "streams of nodes: opened, ended, and the clocks at their other ends",
    "Power": "reboots and fencing of nodes",
    "Priority": "the priority of each pending job, whenever the job changes",
    "Profile": "each profile of a step that arrives: its size",
    "Protocol": "each report of a node",
    "Reservation": "reservations, whenever one is made, changed or removed",
    "Script": "programs of the site: PrologSlurmctld, EpilogSlurmctld, their ends",
    "SelectType": "the nodes, CPUs and memory of each start",
    "Steps": "requests for steps, and each change of a step's state",
    "TraceJobs": "each change of a job: state, reason, priority",
    "Triggers": "triggers: set, cleared, their programs and ends",
}
#: Flag -> what a node daemon logs while it is set.
NODE_EFFECTS: Final = {
    "Agent": "each command of the controller, and its acknowledgement",
    "Gres": "the GPUs of each step, and orders about GPUs",
    "Network": "streams to the controller: opened, ended",
    "Power": "reboots of the machine",
    "Protocol": "each report to the controller, and acknowledgements of reports",
    "Steps": "each step: its start, signals, end and removal; what is noticed of the node",
}
#: Others that Slurm knows, in its present release or in earlier ones.
_NO_EFFECT: Final = (
    "Accrue", "BackfillMap", "BurstBuffer", "Cgroup", "ConMgr", "CPU_Bind", "CpuFrequency", "Data", "DBD_Agent",
    "DBD_Archive", "DBD_Assoc", "DBD_Event", "DBD_Job", "DBD_QOS", "DBD_Query", "DBD_Reservation", "DBD_Resource",
    "DBD_Step", "DBD_TRES", "DBD_Usage", "DBD_WCKEY", "Elasticsearch", "Energy", "ExtSensors", "Federation", "FrontEnd",
    "Gang", "GLOB_SILENCE", "GraceTime", "Hetjob", "Interconnect", "JobAccountGather", "JobContainer", "Kafka", "Metrics",
    "MPI", "Namespace", "NetworkRaw", "NodeFeatures", "NO_CONF_HASH", "Route", "SackD", "Switch", "TimeCray", "TLS",
    "WorkQueue",
)  # fmt: skip
_BY_WORD: Final = {flag.lower(): flag for flag in (*EFFECTS, *_NO_EFFECT)}


def find_flag(word: str) -> str | None:
    """Returns the flag as Slurm spells it, None for what is none."""
    return _BY_WORD.get(word.lower())


def read_flags(text: str, what: str) -> tuple[str, ...]:
    """Reads DebugFlags: flags in any case, separated by commas. Raises BadValue."""
    found = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        if (flag := find_flag(word)) is None:
            raise BadValue(f"Invalid {what}: no debug flag {shown(word)}; with an effect are {', '.join(EFFECTS)}")
        found.append(flag)
    return tuple(dict.fromkeys(found))


def without_effect(flags: Iterable[str], effects: Mapping[str, str] = EFFECTS) -> list[str]:
    """Returns those that have none. `effects`: of the controller, or NODE_EFFECTS."""
    return [flag for flag in flags if flag not in effects]


def note(text: str) -> str:
    """Returns what an administrator should know of DebugFlags=TEXT; "" = nothing."""
    idle = without_effect(find_flag(word.strip()) or "" for word in text.split(",") if word.strip())
    return f"{', '.join(idle)}: no effect here; docs/logs.md lists the flags that have one" if idle else ""
