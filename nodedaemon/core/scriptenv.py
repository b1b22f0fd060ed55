"""The environment of Prolog and Epilog: a list of allowed names, each made by us.

These programs run as root. What a user may choose is only ever a value, and only of a name in this list: nothing of
the submitted environment gets here, so neither LD_PRELOAD nor BASH_ENV, PATH or a name with a newline does
(reliability.md 3: the class of faults that Slurm had in 2017, 2021 and 2026).
"""

from collections.abc import Mapping

import msgspec

from nodedaemon.core.environment import TABLE, StepFacts
from nodedaemon.core.gpupins import VOID

#: Of the variables that jobs get, those that Slurm documents for its prolog and epilog programs, too.
NAMES = (
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_JOB_USER", "SLURM_JOB_UID", "SLURM_JOB_GROUP",
    "SLURM_JOB_GID", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION", "SLURM_JOB_QOS", "SLURM_JOB_RESERVATION",
    "SLURM_JOB_LICENSES", "SLURM_JOB_COMMENT", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_JOB_NODELIST",
    "SLURM_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE",
    "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST",
    "SLURM_CLUSTER_NAME", "SLURM_NODEID", "SLURMD_NODENAME", "SLURM_SHARDS_ON_NODE",
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", "NVIDIA_VISIBLE_DEVICES",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)  # fmt: skip
#: What the controller may add, since only it knows them.
ADDED = frozenset((
    "SLURM_JOB_CONSTRAINTS", "SLURM_JOB_EXTRA", "SLURM_WCKEY", "SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2",
    "SLURM_JOB_DERIVED_EC", "SLURM_JOB_STDIN", "SLURM_JOB_STDOUT", "SLURM_JOB_STDERR", "SLURM_JOB_WORK_DIR",
))  # fmt: skip


def _text(value: int | str | bytes) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def script_environment(facts: StepFacts, paths: Mapping[str, bytes], added: Mapping[str, str]) -> dict[str, str]:
    """What Prolog and Epilog of a job find. `paths`: SLURM_JOB_WORK_DIR and the like; `added`: the controller's."""
    env = {}
    outside = msgspec.structs.replace(facts.share.pinning, is_fenced=False)  # they run in no group of the job's
    facts = msgspec.structs.replace(facts, share=msgspec.structs.replace(facts.share, pinning=outside))
    for name in NAMES:
        value = TABLE[name](facts)
        if value is not None and value not in ("", VOID):
            env[name] = _text(value)
    env["SLURM_JOB_ID"] = env["SLURM_JOBID"] = str(facts.job_id)  # a component's own
    env["SLURM_JOB_RESTART_COUNT"] = str(facts.restart_count)
    env |= {name: _text(value) for name, value in paths.items() if name in ADDED and value}
    env |= allowed(added)
    return {name: value for name, value in env.items() if "\0" not in value}


def allowed(added: Mapping[str, str]) -> dict[str, str]:
    """Of what the controller sent, what may be there."""
    return {name: value for name, value in added.items() if name in ADDED and "\0" not in value}


def context(name: str, node_name: str) -> dict[str, str]:
    """What a program finds that belongs to no job. `name`: health_check, reboot, unkillable, ..."""
    return {"SLURM_SCRIPT_CONTEXT": name, "SLURMD_NODENAME": node_name}
