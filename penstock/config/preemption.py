"""Checks the parameters of preemption and time slicing: PreemptType, PreemptMode, PreemptParameters.

Slurm's rules (slurm.conf(5)): without a PreemptType nothing is preempted, so a PreemptMode other than OFF or GANG is a
mistake; with one a mode is required; SUSPEND requires GANG, which resumes suspended jobs; WITHIN applies to jobs of one
QOS. The same holds for the modes of partitions.
"""

from penstock.config.lines import Values
from penstock.config.problem import Findings, Where
from penstock.values.config import PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.numbers import parse_int

#: Parameters with a number: minimum and maximum.
_NUMBERS = {
    "reorder_count": (0, 1_000_000),
    "min_exempt_priority": (0, 2**32 - 2),
    "suspend_grace_time": (0, 65_533),
}
_WORDS = ("youngest_first", "strict_order", "send_user_signal", "reclaim_licenses")
#: Their prefix in SchedulerParameters, in older releases.
OLD_PREFIX = "preempt_"


def read_preemption(values: Values, findings: Findings) -> Fields:
    """Checks the cluster's keys; returns the fields of `Config` that depend on more than one key."""
    pairs, where = values.get("preempt_parameters", ((), None))
    known = [pair for pair in pairs if where is None or _is_known(pair, where, findings)]
    if "scheduler_parameters" in values:
        given = {name for name, _ in known}
        for name, text in values["scheduler_parameters"].value:
            new = name.removeprefix(OLD_PREFIX)
            if name.startswith(OLD_PREFIX) and new in (*_NUMBERS, *_WORDS) and new not in given:
                known.append((new, text))
    _check_modes(values, findings)
    return {"preempt_parameters": tuple(known)} if known else {}


def _is_known(pair: tuple[str, str], where: Where, findings: Findings) -> bool:
    name, text = pair
    if name in _WORDS and not text:
        return True
    if name in _WORDS:
        findings.error(where, f"PreemptParameters: {name} takes no value")
        return False
    if name not in _NUMBERS:
        return False  # words.py warns about it
    try:
        parse_int(text, *_NUMBERS[name], name)
    except BadValue as problem:
        findings.error(where, f"PreemptParameters: {problem}")
        return False
    return True


def _check_modes(values: Values, findings: Findings) -> None:
    how = values.value("preempt_type", "preempt/none")
    modes = values.value("preempt_mode", ("OFF",))
    where = (values.get("preempt_mode") or values.get("preempt_type") or (None, None))[1]
    if where is None:
        return
    named = "PreemptMode=" + ",".join(modes)
    acts = [mode for mode in modes if mode in ("CANCEL", "REQUEUE", "SUSPEND")]
    if len(acts) > 1 or ("OFF" in modes and len(modes) > 1):
        findings.error(where, f"{named}: give one of OFF, CANCEL, REQUEUE, SUSPEND, with GANG or WITHIN where wanted")
    elif how == "preempt/none" and (acts or "WITHIN" in modes):
        findings.error(
            where, f"{named} needs PreemptType=preempt/partition_prio or preempt/qos; without one it is OFF or GANG"
        )
    elif how != "preempt/none" and not acts:
        findings.error(where, f"PreemptType={how} needs a PreemptMode: CANCEL, REQUEUE or SUSPEND,GANG")
    if "SUSPEND" in modes and "GANG" not in modes:
        findings.error(where, f"{named}: SUSPEND needs GANG, which resumes suspended jobs: PreemptMode=SUSPEND,GANG")
    if "WITHIN" in modes and how == "preempt/partition_prio":
        findings.error(where, f"{named}: WITHIN is for jobs of one QOS and needs PreemptType=preempt/qos")


def _where(values: Values, name: str) -> Where:
    """Returns the position of a key, or of another key if it was set earlier (a partition that is changed by scontrol)."""
    return values[name].where if name in values else next(iter(values.values())).where


def check_partition(partition: PartitionConfig, values: Values, cluster: Values, findings: Findings) -> None:
    """Checks a partition's preemption settings against the cluster's keys."""
    modes = partition.preempt_mode
    how = cluster.value("preempt_type", "preempt/none")
    if modes:
        where = _where(values, "preempt_mode")
        named = f"{partition.name}: PreemptMode=" + ",".join(modes)
        acts = [mode for mode in modes if mode in ("CANCEL", "REQUEUE", "SUSPEND")]
        if how == "preempt/none" and acts:
            findings.error(
                where, f"{named} has no effect with PreemptType=preempt/none; set PreemptType or leave it out"
            )
        if "SUSPEND" in modes and "GANG" not in cluster.value("preempt_mode", ("OFF",)):
            findings.error(where, f"{named}: SUSPEND needs GANG in the cluster's PreemptMode")
        if "WITHIN" in modes:
            findings.error(where, f"{named}: WITHIN is set for the cluster or for a QOS")
        if len(acts) > 1 or ("OFF" in modes and len(modes) > 1):
            findings.error(where, f"{named}: give one of OFF, CANCEL, REQUEUE, SUSPEND")
    if partition.grace_time_s and (modes or cluster.value("preempt_mode", ()))[:1] == ("SUSPEND",):
        findings.warn(
            _where(values, "grace_time_s"),
            f"{partition.name}: GraceTime is not used with SUSPEND; PreemptParameters=suspend_grace_time= is",
        )
