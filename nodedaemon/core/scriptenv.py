"""The environment of Prolog and Epilog: a list of allowed names, each set by the daemon.

These programs run as root. A user can influence only values, and only of names in this list: nothing of the submitted
environment is passed on, so neither LD_PRELOAD nor BASH_ENV, PATH or a name with a newline is (reliability.md 3: the
class of faults that Slurm had in 2017, 2021 and 2026).
"""

from collections.abc import Mapping

import msgspec

from nodedaemon.core.environment import TABLE, StepFacts
from nodedaemon.core.gpupins import VOID
from penstock.values.jobenv import Environment, names_in

#: Variables of jobs that Slurm documents for its prolog and epilog programs, too.
NAMES = names_in(Environment.SITE)
#: Variables that the controller may add, since only it knows their values.
ADDED = frozenset((
    "SLURM_JOB_CONSTRAINTS", "SLURM_JOB_EXTRA", "SLURM_WCKEY", "SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2",
    "SLURM_JOB_DERIVED_EC", "SLURM_JOB_STDIN", "SLURM_JOB_STDOUT", "SLURM_JOB_STDERR", "SLURM_JOB_WORK_DIR",
))  # fmt: skip


def _text(value: int | str | bytes) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def script_environment(facts: StepFacts, paths: Mapping[str, bytes], added: Mapping[str, str]) -> dict[str, str]:
    """The environment of Prolog and Epilog of a job. `paths`: SLURM_JOB_WORK_DIR and the like; `added`: the
    controller's.
    """
    env = {}
    outside = msgspec.structs.replace(facts.share.pinning, is_fenced=False)  # they run outside the job's groups
    facts = msgspec.structs.replace(facts, share=msgspec.structs.replace(facts.share, pinning=outside))
    for name in NAMES:
        value = TABLE[name](facts)
        if value is not None and value not in ("", VOID):
            env[name] = _text(value)
    env["SLURM_JOB_ID"] = env["SLURM_JOBID"] = str(facts.job_id)  # the component's own
    env["SLURM_JOB_RESTART_COUNT"] = str(facts.restart_count)
    env |= {name: _text(value) for name, value in paths.items() if name in ADDED and value}
    env |= allowed(added)
    return {name: value for name, value in env.items() if "\0" not in value}


def allowed(added: Mapping[str, str]) -> dict[str, str]:
    """Returns the allowed part of the variables that the controller sent."""
    return {name: value for name, value in added.items() if name in ADDED and "\0" not in value}


def context(name: str, node_name: str) -> dict[str, str]:
    """The environment of a program that belongs to no job. `name`: health_check, reboot, unkillable, ..."""
    return {"SLURM_SCRIPT_CONTEXT": name, "SLURMD_NODENAME": node_name}
