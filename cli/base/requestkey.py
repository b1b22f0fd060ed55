"""The idempotency key of a submission, and the message when its answer was lost: for sbatch, salloc and srun.

The same key means the same job, for ten minutes (ctld/core/requests/submit.py). So the user can repeat the command with
the key.
"""

import os
import shlex
import time

from cli.base.options import YES, Option
from cli.base.run import CommandError
from penstock.errors import NotKnown
from penstock.values.requestkey import new_request_key

REQUEST_KEY = Option(
    "request-key", "", YES, help="repeat a submission that was not answered", metavar="key", own=True,
    note="not in Slurm",
)  # fmt: skip
FOR_MIN = 10


def new_key() -> str:
    """Generates a key of a request."""
    return new_request_key(time.time_ns() // 1000, os.urandom(16))


def not_known(name: str, job_name: str, key: str, error: NotKnown, status: int = 1, cluster: str = "") -> CommandError:
    """The message in place of "failed": it is unknown whether the job is in the queue. `cluster`: the one that was asked, if
    it must be named to ask it again.
    """
    where = f" --clusters={cluster}" if cluster else ""
    return CommandError(
        f"{name}: error: It is not known whether the job was submitted: {error.text}\n"
        f"{name}: look with `squeue{where} --me -n {shlex.quote(job_name)}`, or give the same command with\n"
        f"{name}:{where} --request-key={key} within {FOR_MIN} minutes: the same key is the same job",
        status,
        plain=True,
    )
