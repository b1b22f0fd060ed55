"""Job ids as commands send them."""

from penstock.values.jobid import JobSelector


def selector_text(selector: JobSelector) -> str:
    """A job or tasks of an array, as requests carry it."""
    if selector.tasks is None:
        return str(selector.job_id)
    if len(selector.tasks) == 1:
        return f"{selector.job_id}_{selector.tasks.first()}"
    return f"{selector.job_id}_[{selector.tasks.format()}]"
