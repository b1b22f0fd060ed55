"""A controller that stalls (SIGSTOP): every kind of request is answered with 503, and none after its continuation."""

import asyncio
import signal
from collections.abc import Callable

import httpx
import pytest
from livecluster import CTLD
from liverest import LiveRest
from patience import ANSWER_S

SLURM, DB, OWN = "/slurm/v0.0.46", "/slurmdb/v0.0.46", "/penstock/v1"
#: One call, a list, pages that are one answer, pages that a thread reads, a search of the database, a report, and plans.
PATHS = (
    f"{SLURM}/ping", f"{SLURM}/diag", f"{SLURM}/jobs", f"{SLURM}/nodes", f"{SLURM}/shares",
    f"{DB}/associations", f"{DB}/accounts", f"{DB}/jobs", f"{DB}/qos",
    f"{OWN}/jobs", f"{OWN}/jobs/past", f"{OWN}/queue", f"{OWN}/policy", f"{OWN}/usage", f"{OWN}/waste", f"{OWN}/efficiency",
    f"{OWN}/nodes/events", f"{OWN}/borrowing", f"{OWN}/budgets", f"{OWN}/fits", f"{OWN}/plan/without?nodes=n1",
    f"{OWN}/events",
)  # fmt: skip


@pytest.fixture
def frozen(new_rest: Callable[..., LiveRest]) -> LiveRest:
    """With one job, so that no list is empty."""
    rest = new_rest()
    rest.cluster.wait_ends(rest.cluster.sbatch("-n1", "-o", "/dev/null", "--wrap", "true"))
    return rest


def test_a_controller_that_stands_still_keeps_nobody_waiting(frozen: LiveRest) -> None:
    token = {"X-SLURM-USER-TOKEN": frozen.token()}

    async def ask(client: httpx.AsyncClient, path: str) -> int:
        async with client.stream("GET", path) as reply:  # a stream of events has no end
            return reply.status_code

    async def ask_all() -> dict[str, int]:
        async with httpx.AsyncClient(base_url=frozen.url, headers=token, timeout=ANSWER_S) as client:
            return dict(zip(PATHS, await asyncio.gather(*(ask(client, path) for path in PATHS)), strict=True))

    before = asyncio.run(ask_all())
    controller = frozen.cluster.daemons[CTLD].process
    controller.send_signal(signal.SIGSTOP)
    still = asyncio.run(ask_all())
    controller.send_signal(signal.SIGCONT)
    assert {path for path, status in before.items() if status != 200} == set()
    assert {path for path, status in still.items() if status != 503} == set()
    assert {path for path, status in asyncio.run(ask_all()).items() if status != 200} == set()
    assert "Traceback" not in frozen.log()
