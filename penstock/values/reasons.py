"""Each reason why a job waits, or ended as it did, in a sentence for its owner.

Whoever adds a reason to `Reason` adds its sentence here; a test compares the two. The commands look a sentence up by
the word that the controller sends, so that no list of jobs carries sentences.
"""

from penstock.values.limitreasons import sentences
from penstock.values.states import Reason

#: `scontrol show job` shows the sentence as ReasonDetail where the controller has nothing more exact to say.
TEXT: dict[Reason, str] = {
    Reason.NONE: "It has not been looked at yet, or it does not wait.",
    Reason.PRIORITY: "Jobs with a higher priority wait for the same nodes.",
    Reason.RESOURCES: "It is first in line; the resources it asks for are in use.",
    Reason.DEPENDENCY: "It waits for other jobs (see Dependency).",
    Reason.DEPENDENCY_NEVER_SATISFIED: (
        "A job it depends on ended in another way than asked for; it will never start. "
        "Cancel it or change its dependency."
    ),
    Reason.BEGIN_TIME: "Its begin time has not come yet.",
    Reason.JOB_HELD_USER: "Its owner holds it back; scontrol release lets it go.",
    Reason.JOB_HELD_ADMIN: "An administrator holds it back.",
    Reason.JOB_ARRAY_TASK_LIMIT: "As many tasks of its array run as its %limit allows.",
    Reason.PARTITION_DOWN: "Its partition is DOWN: jobs are accepted, none is started.",
    Reason.PARTITION_INACTIVE: "Its partition is INACTIVE.",
    Reason.PARTITION_NODE_LIMIT: "It asks for more or fewer nodes than its partition allows.",
    Reason.PARTITION_TIME_LIMIT: "Its time limit is above its partition's MaxTime.",
    Reason.PARTITION_CONFIG: "Its partition takes jobs from other hosts (AllocNodes) or in a reservation only (ReqResv).",
    Reason.ACCOUNT_NOT_ALLOWED: "Its partition does not take jobs of its account.",
    Reason.QOS_NOT_ALLOWED: "Its partition does not take jobs of its QOS.",
    Reason.REQ_NODE_NOT_AVAIL: "Nodes that it needs are down or drained.",
    Reason.BAD_CONSTRAINTS: "No set of nodes of the present configuration can run it.",
    Reason.LICENSES: "The licenses it asks for are in use.",
    Reason.RESERVATION: "Nodes that it needs are reserved, or its own reservation has not begun.",
    Reason.DEADLINE: "It cannot end before its deadline any more.",
    Reason.RESERVATION_DELETED: (
        "The reservation it asked for has ended or was deleted; scontrol release lets it run without one."
    ),
    Reason.PREEMPTED: "It had to go for a job of a higher rank.",
    Reason.NODE_DOWN: "A node of it is down; it goes on when it is known that nothing of it runs there any more.",
    Reason.CLEANING: "Its last run is still being cleaned up.",
    Reason.JOB_LAUNCH_FAILURE: "It could not be started.",
    Reason.LAUNCH_FAILED_REQUEUED_HELD: "A node refused to start it; it waits, held. `scontrol show story` says why.",
    Reason.JOB_HOLD_MAX_REQUEUE: "It was queued again more than MaxBatchRequeue times.",
    Reason.NON_ZERO_EXIT_CODE: "Its script ended with an exit code other than 0.",
    Reason.RAISED_SIGNAL: "A signal ended it.",
    Reason.TIME_LIMIT: "It reached its time limit.",
    Reason.OUT_OF_MEMORY: "It used more memory than it had been given.",
    Reason.SYSTEM_FAILURE: "The system failed it.",
    Reason.INACTIVE_LIMIT: "Nothing ran in it and its owner was gone for longer than InactiveLimit.",
    Reason.NODES_BUSY: "It was to start at once, and its nodes were busy.",
    Reason.INVALID_ACCOUNT: "Its user has no association with its account in its partition.",
    Reason.INVALID_QOS: "Its QOS does not exist any more.",
    **sentences(),
    Reason.PENSTOCK_BUDGET: "Its account, or one above it, has too little of its budget left (penstock budget).",
}


def sentence(word: str) -> str:
    """The sentence for a reason as it came over the wire; "" for one that this version does not know, or none."""
    return next((text for reason, text in TEXT.items() if reason == word and reason is not Reason.NONE), "")
