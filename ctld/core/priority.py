"""Priority and rank of pending jobs: priority/basic.

Jobs are served in the order of submission: the first job has the highest number (slurm.conf's
PriorityType=priority/basic), lowered by nice; an administrator may set a number by hand; 0 means held. The rank that
the scheduler sorts by is the partition's PriorityTier above the job's priority; ties go to the lower job id.

The seam for the multifactor plug-in: `initial()` is the only place that computes a priority.
"""

from ctld.core.model import Job, Partition

#: Slurm's TOP_PRIORITY for priority/basic.
PRIORITY_TOP = 0xFFFF0000 - 1
PRIORITY_MAX = 0xFFFFFFFE


def initial(job_id: int, nice: int) -> int:
    """The priority of a new job. 1 at least: 0 would mean held."""
    return min(PRIORITY_MAX, max(1, PRIORITY_TOP - job_id - nice))


def rank(job: Job, partition: Partition) -> int:
    """What the scheduler sorts by, 48 bits, higher first."""
    tier: int = min(partition.config.priority_tier, 0xFFFF)
    return (tier << 32) | job.priority
