"""Simulations over REST on a real cluster: whose jobs they have, what is refused, and attacks on who computes them."""

import asyncio
import gzip
from typing import Any

import httpx
import pytest
from liverest import LiveRest
from patience import ANSWER_S
from simlogs import HEAVY, SWF

from rest.limits import BODY_BYTES_MAX, SIMULATED_DAYS_MAX

PATH = "/penstock/v1/simulations"
ACTIVE = ("READING", "RUNNING")
POSTS = 200
SLOW = {"log": HEAVY, "policies": ["conservative"]}


def done(rest: LiveRest, client: httpx.Client, begun: Any) -> Any:
    """The document of a simulation that has ended."""
    found: list[Any] = [begun]

    def has_ended() -> bool:
        found.append(client.get(f"{PATH}/{begun['simulation_id']}").json())
        return found[-1]["state"] not in ACTIVE

    rest.cluster.wait(has_ended, "the simulation ends")
    return found[-1]


def test_a_log_and_what_is_refused(rest: LiveRest) -> None:
    with rest.as_user() as client:
        begun = client.post(PATH, json={"log": SWF, "name": "../<b>x</b>", "policies": ["easy", "sjf"]}).json()
        found = done(rest, client, begun)
        assert (found["state"], found["jobs"], found["processors"]) == ("DONE", 2, 4)
        assert [one["policy"] for one in found["runs"]] == ["recorded", "easy", "sjf"] and "/" not in found["name"]
        url = f"{PATH}/{begun['simulation_id']}"
        tag = client.get(url).headers["etag"]
        assert client.get(url, headers={"If-None-Match": tag}).status_code == 304
        assert client.delete(url).status_code == 200 and client.get(url).status_code == 404
        nodes = done(rest, client, client.post(PATH, json={"log": SWF, "on_cluster": True}).json())
        assert nodes["state"] == "DONE" and nodes["processors"] == rest.cluster.conf.cpus * 2
        for body, word in (
            ({}, "give a log"), ({"log": SWF, "days": 1}, "give a log"), ({"days": 0}, "days is"), ({"days": -1}, "days is"),
            ({"days": SIMULATED_DAYS_MAX + 1}, "days is"), ({"log": SWF, "policies": [str(n) for n in range(7)]}, "at most"),
            ({"log": SWF, "policies": ["x" * 101]}, "at most"), ({"log": SWF, "processors": -1}, "processors"),
            ({"log": SWF, "on_cluster": True, "partition": "none"}, "no nodes"), ({"log": SWF, "name": "x" * 201}, "name has"),
        ):  # fmt: skip
            refused = client.post(PATH, json=body)
            assert refused.status_code == 422 and word in refused.json()["errors"][0]["description"], (
                body,
                refused.text,
            )
        for log, word in (("x", "not a known format"), (SWF.replace("4\n", "x\n", 1), "how many"), ("1 2 3", "18")):
            failed = done(rest, client, client.post(PATH, json={"log": log}).json())
            assert failed["state"] == "FAILED" and word in failed["error"], failed
        too_long = client.post(
            PATH, content=b'{"log":"' + b"1" * BODY_BYTES_MAX + b'"}', headers={"Content-Type": "application/json"}
        )
        assert too_long.status_code == 413
        packed = gzip.compress(b"0" * 10**8)
        head = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        assert client.post(PATH, content=packed, headers=head).status_code == 415


@pytest.mark.root
def test_the_last_days_have_what_sacct_shows_and_a_run_is_its_users(rest: LiveRest) -> None:
    for name in ("one", "two"):
        rest.cluster.wait_state(rest.cluster.sbatch("-J", name, "--wrap", "true"), "COMPLETED")
    with rest.as_user() as admin, rest.as_user("nobody") as other:
        found = done(rest, admin, admin.post(PATH, json={"days": 1, "policies": ["easy", "fcfs"]}).json())
        assert found["state"] == "DONE" and found["jobs"] >= 2 and found["runs"][0]["policy"] == "recorded"
        site = done(rest, other, other.post(PATH, json={"log": SWF, "on_cluster": True, "policies": ["site"]}).json())
        assert (site["state"], site["runs"][-1]["policy"], site["runs"][-1]["engine"]) == ("DONE", "site", "core"), site
        url = f"{PATH}/{found['simulation_id']}"
        assert other.get(url).status_code == 404 and other.delete(url).status_code == 404
        assert admin.get(url).status_code == 200
        assert other.get(f"{PATH}/none").status_code == 404
        assert admin.post(PATH, json={"days": 1, "partition": "none"}).status_code == 422


@pytest.mark.root
def test_one_user_cannot_take_all_and_who_goes_frees_the_place(rest: LiveRest) -> None:
    """200 posts of a user begin one simulation; others still begin theirs, and the daemon answers meanwhile."""
    token = rest.token()

    async def flood() -> list[int]:
        head = {"X-SLURM-USER-TOKEN": token}
        async with httpx.AsyncClient(base_url=rest.url, headers=head, timeout=ANSWER_S) as client:

            async def one() -> int:
                return (await client.post(PATH, json={"log": SWF, "policies": ["easy"]})).status_code

            return [status for _ in range(POSTS // 20) for status in await asyncio.gather(*(one() for _ in range(20)))]

    with rest.as_user() as client, rest.as_user("nobody") as other:
        slow = client.post(PATH, json=SLOW).json()
        assert set(asyncio.run(flood())) == {429}
        begun = other.post(PATH, json={"log": SWF})
        assert begun.status_code == 200 and done(rest, other, begun.json())["state"] == "DONE"
        url = f"{PATH}/{slow['simulation_id']}"
        assert client.get(url).json()["state"] == "RUNNING"
        assert client.delete(url).json()["state"] == "CANCELLED"
        assert client.get(url).json()["state"] == "CANCELLED"
        again = done(rest, client, client.post(PATH, json={"log": SWF}).json())
        assert again["state"] == "DONE"
    assert "Traceback" not in rest.log()
