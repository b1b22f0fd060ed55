"""`scontrol update` of a job's nodes: the scripts with which a shell in the job takes over the new values.

scontrol writes them into its working directory when it runs inside a job (SLURM_JOBID is set), as in Slurm:
`slurm_job_N_resize.sh` and `.csh` set the variables of the job's nodes that the environment has, and unset those of its
tasks, which are not known any more.
"""

import os
import sys
from collections.abc import Iterable

from cli.base.run import CommandError
from cli.control.keywords import list_jobs
from penstock.v1 import controller_pb2 as pb
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.counts import compress_counts

#: Keys of an update that resize a running job.
KEYS = frozenset(("numnodes", "reqnodelist"))
#: Variables of the tasks. They are unset when the environment has the last of them.
_OF_TASKS = ("SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE")


def write_scripts(target: str) -> None:
    """Writes both scripts for the job as it is now, and prints how to run them. Outside of a job there is nothing to do."""
    if not os.environ.get("SLURM_JOBID"):
        return
    jobs = list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(ids=[target]), detail=True))
    if len(jobs) != 1 or not jobs[0].node_list:
        return
    values = _values(jobs[0])
    unset = _OF_TASKS if _OF_TASKS[-1] in os.environ else ()
    plain, csh = (f"slurm_job_{jobs[0].job_id}_resize.{shell}" for shell in ("sh", "csh"))
    _write(csh, [*(f"setenv {name} {value}" for name, value in values), *(f"unsetenv {name}" for name in unset)])
    _write(plain, [*(f"export {name}={value}" for name, value in values), *(f"unset {name}" for name in unset)])
    sys.stdout.write(
        "To reset Slurm environment variables, execute\n"
        f"  For bash or sh shells:  . ./{plain}\n"
        f"  For csh shells:         source ./{csh}\n"
    )


def _values(job: JobInfo) -> list[tuple[str, str]]:
    nodes, cpus = f'"{job.node_list}"', compress_counts(part.cpus for part in job.allocation)
    known = (
        ("SLURM_NODELIST", nodes), ("SLURM_JOB_NODELIST", nodes), ("SLURM_NNODES", str(job.nodes)),
        ("SLURM_JOB_NUM_NODES", str(job.nodes)), ("SLURM_JOB_CPUS_PER_NODE", f'"{cpus}"'),
    )  # fmt: skip
    return [(name, value) for name, value in known if name in os.environ]


def _write(path: str, lines: Iterable[str]) -> None:
    """Writes a new file in place of an old one; a link of that name is replaced, not followed."""
    try:
        if os.path.lexists(path):
            os.unlink(path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise CommandError(f"Could not create file {path}: {error.strerror}", plain=True) from error
