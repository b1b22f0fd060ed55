"""The outcome of an attempt in the job's record: its exit status, the node that failed it, and the text that explains it.

The rooms that learn of an outcome call these functions. They only write: the caller marks the row (`state.touch`), as it
changes other fields too. A new attempt has no outcome (lifecycle/job_life.py); why a pending job waits is written by
lifecycle/waiting.py, and why it is held by jobs/holds.py.
"""

from ctld.core.records.job import Job


def explain(job: Job, text: str) -> None:
    """Sets the text beside the job's reason; "" = the reason says it all."""
    job.reason_detail = text


def set_exit(job: Job, code: int, signal: int) -> None:
    """Sets the exit status of the job: that of its script, or of its owner."""
    job.exit_code = code
    job.exit_signal = signal


def set_derived_exit(job: Job, code: int, signal: int) -> None:
    """Sets the highest exit status of its steps."""
    job.derived_code = code
    job.derived_signal = signal


def count_failure(job: Job) -> None:
    """Counts an attempt that its node or its launch ended, for MaxBatchRequeue."""
    job.failed_attempts += 1


def reset_failures(job: Job) -> None:
    """Does so from 0: the job was released from the hold that the count has caused."""
    job.failed_attempts = 0


def failed_on(job: Job, node: str) -> None:
    """Names the node that failed the attempt."""
    job.failed_node = node
