"""Item 10, for submit filters: an answer is that of its own call, whatever a filter has written to the descriptors of its process.

Found: a filter that had written to its socket shifted all answers of its process by one: each user's job was changed, and each
user told, as it was decided for the user before.
"""

import asyncio
import pwd
from pathlib import Path

import grpc
import pytest

from penstock.v1.explain_pb2 import DiagnosticsRequest
from tests.rpc.clusterkit import Site, submission

NOBODY = pwd.getpwnam("nobody").pw_uid

FILTER = """
import json, os

def job_submit(job, submitter):
    if job.name in FORGED:
        for fd in range(3, 5000):
            try:
                os.write(fd, len(FORGED[job.name]).to_bytes(4, "big") + FORGED[job.name])
            except OSError:
                pass
    job.comment = f"of {job.name}"

FORGED = {
    "null": b"null",
    "object": b'{"changed": {"comment": "forged"}, "removed": [], "messages": [], "notes": []}',
    "number": b'{"changed": {"comment": "forged"}, "removed": [], "messages": [], "notes": [], "number": 1}',
    "text": b"x",
}
"""


@pytest.mark.parametrize("name", ["null", "object", "number", "text"])
def test_10_no_answer_is_taken_for_that_of_another_call(tmp_path: Path, name: str) -> None:
    path = tmp_path / "filter.py"
    path.write_text(FILTER)
    path.chmod(0o600)
    site = Site(tmp_path, extra=f"PenstockSubmitFilter={path}\nPenstockSubmitFilterTimeout=5\n")

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            jobs = controller.runtime.core.state.jobs
            await site.call_as(NOBODY, "SubmitJob", submission(name="first", hold=True))
            with pytest.raises(grpc.aio.AioRpcError, match="submit filter of this cluster has failed"):
                await site.call_as(NOBODY, "SubmitJob", submission(name=name, hold=True))
            for after in ("second", "third"):
                reply = await site.call_as(0, "SubmitJob", submission(name=after, hold=True))
                assert jobs[reply.job_id].request.comment == f"of {after}"
            assert (await client.call("Diagnostics", DiagnosticsRequest())).filter_failures == 1

    asyncio.run(story())
