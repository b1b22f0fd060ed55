"""Sends a batch job and says what became of it: for sbatch and `penstock submit`."""

import math
from typing import TYPE_CHECKING

from cli.base.requestkey import not_known
from cli.base.run import CommandError, complain, warn
from cli.jobs.jobopts import SUBMIT_FAILED
from cli.jobs.jobrequest import prediction
from penstock.errors import NotKnown, PenstockError
from penstock.v1.controller_pb2 import AwaitJobRequest, SubmitJobReply, SubmitJobRequest
from penstock.values.exitcode import shell_status

if TYPE_CHECKING:
    from cli.base.options import OptionValues
    from penstock.client import Client


def submit(name: str, client: "Client", request: SubmitJobRequest, values: "OptionValues", cluster: str = "") -> int:
    """Sends the request; returns the exit status, with `wait` the job's own. `name`: of the command; `values`: parsable,
    quiet, wait; `cluster`: the one that was named. Raises CommandError.
    """
    return report(name, client, request, send(name, client, request, cluster), values, cluster)


def send(name: str, client: "Client", request: SubmitJobRequest, cluster: str = "") -> SubmitJobReply:
    """Sends the request. Raises CommandError."""
    try:
        reply: SubmitJobReply = client.call("SubmitJob", request)
        return reply
    except PenstockError as error:
        words = "allocation failure" if request.test_only else f"{name}: error: {SUBMIT_FAILED}"
        if isinstance(error, NotKnown) and not request.test_only:
            raise not_known(name, request.job.name, request.request_key, error, cluster=cluster) from error
        from cli.base.refusal import lines_of

        raise CommandError(lines_of(name, words, error), plain=True) from error


def report(
    name: str, client: "Client", request: SubmitJobRequest, reply: SubmitJobReply, values: "OptionValues", cluster: str
) -> int:
    """Says what became of the request, and waits if asked to. Returns the exit status."""
    if not values.flag("quiet"):
        for line in reply.user_messages:
            complain(name, f"{name}: {line}", plain=True)
        for warning in reply.warnings:
            warn(name, warning)
    if request.test_only:
        complain(name, prediction(name, reply), plain=True)
        return 0
    if values.flag("parsable"):
        print(f"{reply.job_id};{cluster}" if cluster else reply.job_id, flush=True)  # noqa: T201
    elif not values.flag("quiet"):
        print(f"Submitted batch job {reply.job_id}{f' on cluster {cluster}' if cluster else ''}", flush=True)  # noqa: T201
    return _awaited(client, reply.job_id) if values.flag("wait") else 0


def _awaited(client: "Client", job_id: int) -> int:
    ended = client.call("AwaitJob", AwaitJobRequest(job_id=job_id), timeout_s=math.inf)
    status = shell_status(ended.exit.code, ended.exit.signal)
    # A job that was cancelled before it started, or whose script caught the signal, has no meaningful exit code.
    return status or (0 if ended.state == "COMPLETED" else 1)
