"""A job's request: frozen, shared by the job, its committed row and all tasks of an array; and the allocation on a
node."""

from typing import NamedTuple

from ctld.core.records.request_fields import RequestFields
from ctld.core.records.step import GpuShare
from penstock.values.gres import Gres
from penstock.values.jobkind import JobKind
from penstock.values.nodesharing import exclusive_word, oversubscribe_word


class RequestedMemory(NamedTuple):
    """What was asked for, where MaxMemPerCPU has changed it (queue/memory.py)."""

    cpus_per_task: int
    mem_per_cpu_mb: int | None
    mincpus: int


class JobRequest(RequestFields, frozen=True, gc=False, omit_defaults=True):
    """A job's request, validated and completed. Defaults are omitted from its JSON."""

    work_dir: bytes = b"/"
    nodes_min: int = 1
    nodes_max: int = 1
    nodes_asked: bool = False
    ntasks: int = 1
    ntasks_asked: bool = False
    ntasks_over: int = 0  # --overcommit: requested tasks, while `ntasks` is one a node
    cpus_per_task: int = 1
    cpus_per_task_asked: bool = False
    memory_asked: RequestedMemory | None = None  # None = MaxMemPerCPU has changed nothing
    nodes_required: tuple[str, ...] = ()
    nodes_excluded: tuple[str, ...] = ()
    requeue: bool = True
    kind: JobKind = JobKind.BATCH
    site_factor: int = 0  # an administrator's own part of the priority
    reservation_run: str = ""  # the reservation in which it runs, where `reservation` does not determine it
    het_job_id: int = 0  # of a heterogeneous job (jobs/het.py): the leader's id; 0 = it is none
    het_offset: int = 0
    het_size: int = 0
    system_comment: str = ""
    apart_label: str = ""  # the MCS label whose jobs alone may share its nodes (queue/mcs.py); "" = any job
    cron: str = ""  # of a line of a crontab: its schedule (penstock/values/cron.py); "" = it runs once

    def has_owner(self) -> bool:
        """Whether a salloc or srun owns the job."""
        return self.kind in (JobKind.SALLOC, JobKind.SRUN) and not self.het_offset

    def is_apart(self) -> bool:
        """Whether it shares its nodes only with jobs of its user or of its label."""
        return self.exclusive_user or bool(self.apart_label)

    def is_alone(self) -> bool:
        """Whether no other job may be on its nodes."""
        return self.exclusive or self.exclusive_topo

    def exclusive_word(self) -> str:
        """Returns what it has for itself, as Slurm names it."""
        return exclusive_word(self.exclusive_topo, self.exclusive_user, bool(self.apart_label), self.exclusive)

    def oversubscribe_word(self) -> str:
        """Returns whether its CPUs are shared, as Slurm names it."""
        return oversubscribe_word(self.is_alone(), self.oversubscribe)

    def gres(self) -> tuple[Gres, ...]:
        """Returns the request on each node, as counts by kind."""
        return tuple(Gres(*entry) for entry in self.gres_per_node)


class NodeAlloc(NamedTuple):
    """A job's allocation on one node. `gres`: (name, type, bit mask of device indices) by kind, whole devices only."""

    node: str
    cpus: int
    mem_mb: int
    tasks: int
    gres: tuple[tuple[str, str, int], ...]
    cpu_ids: int = 0  # bit mask of cpu numbers (state/devices.py); 0 = not pinned
    shares: tuple[GpuShare, ...] = ()  # parts of GPUs
