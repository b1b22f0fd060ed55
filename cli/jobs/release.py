"""Releases an allocation: the last request of salloc and srun."""

from collections.abc import Callable

from cli.base.insist import insist
from cli.base.run import complain
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.common_pb2 import ExitStatus
from penstock.v1.steps_pb2 import EndAllocationRequest
from penstock.values.refusals import Code

#: Refusals that mean that the allocation is released already.
OVER = (Code.ALREADY_DONE, Code.INVALID_JOB_ID)


def release_allocation(client: Client, name: str, job_id: int, exit_: ExitStatus, say: Callable[[str], None]) -> bool:
    """Ends the allocation with this exit. False: the controller has not acknowledged that, which is reported; the
    command's status must not be 0 then.
    """
    what = f"Unable to clean up job allocation {job_id}"
    try:
        insist(
            client, "EndAllocation", EndAllocationRequest(job_id=job_id, exit=exit_), lambda why: say(f"{what}: {why}")
        )
    except PenstockError as error:
        if error.code in OVER:
            return True
        complain(name, f"{what}: {error.text}")
        complain(name, f"{name}: it may still be running; `scancel {job_id}` ends it", plain=True)
        return False
    return True
