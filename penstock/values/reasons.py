"""A sentence for the user for each reason why a job is pending or has ended.

Every member of `Reason` has an entry; a test compares the two. Commands look up the sentence by the reason that the
controller sends, so that lists of jobs do not carry sentences.
"""

from penstock.values.limitreasons import sentences
from penstock.values.states import Reason

#: `scontrol show job` shows the sentence as ReasonDetail if the controller has no more specific one.
TEXT: dict[Reason, str] = {
    Reason.NONE: "It has not been considered yet, or it does not wait.",
    Reason.PRIORITY: "Jobs with a higher priority wait for the same nodes.",
    Reason.RESOURCES: "It has the highest priority; the resources that it requests are in use.",
    Reason.DEPENDENCY: "It waits for other jobs (see Dependency).",
    Reason.DEPENDENCY_NEVER_SATISFIED: (
        "A job that it depends on did not end as required, so it will never start. Cancel it or change its dependency."
    ),
    Reason.BEGIN_TIME: "Its begin time has not come yet.",
    Reason.JOB_HELD_USER: "Its owner holds it; scontrol release releases it.",
    Reason.JOB_REQUEUED_HELD: "scontrol requeuehold put it back in the queue and holds it; scontrol release releases it.",
    Reason.JOB_HELD_ADMIN: "An administrator holds it.",
    Reason.JOB_ARRAY_TASK_LIMIT: "As many tasks of its array run as its %limit allows.",
    Reason.PARTITION_DOWN: "Its partition is DOWN: jobs are accepted, none is started.",
    Reason.PARTITION_INACTIVE: "Its partition is INACTIVE.",
    Reason.PARTITION_NODE_LIMIT: "It requests more or fewer nodes than its partition allows.",
    Reason.PARTITION_TIME_LIMIT: "Its time limit is above its partition's MaxTime.",
    Reason.PARTITION_CONFIG: "Its partition takes jobs from other hosts (AllocNodes) or in a reservation only (ReqResv).",
    Reason.ACCOUNT_NOT_ALLOWED: "Its partition does not take jobs of its account.",
    Reason.QOS_NOT_ALLOWED: "Its partition does not take jobs of its QOS.",
    Reason.REQ_NODE_NOT_AVAIL: "Nodes that it needs are down or drained.",
    Reason.BAD_CONSTRAINTS: "No set of nodes of the present configuration can run it.",
    Reason.LICENSES: "The licenses that it requests are in use.",
    Reason.RESERVATION: "Nodes that it needs are reserved, or its own reservation has not started.",
    Reason.DEADLINE: "It can no longer end before its deadline.",
    Reason.RESERVATION_DELETED: (
        "The reservation that it requested has ended or was deleted; scontrol release lets it run without one."
    ),
    Reason.PREEMPTED: "It was preempted by another job.",
    Reason.NODE_DOWN: "One of its nodes is down; it ends or is requeued when it is certain that it no longer runs there.",
    Reason.CLEANING: "Its last run is still being cleaned up.",
    Reason.JOB_LAUNCH_FAILURE: "It could not be started.",
    Reason.LAUNCH_FAILED_REQUEUED_HELD: "A node refused to start it; it is requeued and held. `scontrol show story` says why.",
    Reason.JOB_HOLD_MAX_REQUEUE: "Its nodes have ended more than MaxBatchRequeue of its attempts, or could not launch them.",
    Reason.NON_ZERO_EXIT_CODE: "Its script ended with an exit code other than 0.",
    Reason.RAISED_SIGNAL: "A signal ended it.",
    Reason.TIME_LIMIT: "It reached its time limit.",
    Reason.OUT_OF_MEMORY: "It used more memory than it was allocated.",
    Reason.SYSTEM_FAILURE: "An error of the system ended it.",
    Reason.INACTIVE_LIMIT: "It had neither steps nor an owner process for longer than InactiveLimit.",
    Reason.NODES_BUSY: "It was to start at once, and its nodes were busy.",
    Reason.INVALID_ACCOUNT: "Its user has no association with its account in its partition.",
    Reason.INVALID_QOS: "Its QOS no longer exists.",
    **sentences(),
    Reason.PENSTOCK_BUDGET: "Its account, or one above it, has too little of its budget left (penstock budget).",
}


#: What Slurm shows in place of the reason of a job that names no nodes: those it could have are down, drained, or left
#: to the first jobs of partitions before its own. As the beginning of a detail.
NODES_NOT_FREE = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
#: Details that Slurm shows after the reason.
_NOT_AVAIL_DETAILS = ("UnavailableNodes", "Reserved for maintenance", "May be reserved for other job")


def shown(word: str, detail: str) -> str:
    """Returns a reason as squeue and scontrol show it, with what Slurm shows of its detail."""
    if detail.startswith(NODES_NOT_FREE):
        return NODES_NOT_FREE
    return f"{word}, {detail}" if word == Reason.REQ_NODE_NOT_AVAIL and detail.startswith(_NOT_AVAIL_DETAILS) else word


def sentence(word: str) -> str:
    """Returns the sentence for a reason from the wire; "" if this version does not know the reason."""
    return next((text for reason, text in TEXT.items() if reason == word and reason is not Reason.NONE), "")
