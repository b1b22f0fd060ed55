"""The output of running jobs over REST, on a real cluster: lines as they come, who may read them, and attacks on who reads."""

import asyncio
import os
from pathlib import Path

import httpx
import pytest
from liverest import PREFIX, LiveRest
from patience import ANSWER_S

OWN = "/penstock/v1"
POLLERS = 100


def submit(rest: LiveRest, user: str, script: str, folder: Path) -> int:
    """A job of this user, "" = who runs the tests, which runs in the folder; its id."""
    job = {
        "name": "rout", "current_working_directory": str(folder), "environment": ["PATH=/usr/bin:/bin"],
        "script": f"#!/bin/sh\n{script}\n", "standard_output": "out",
    }  # fmt: skip
    with rest.as_user(user) as client:
        job_id = int(client.post(f"{PREFIX}/job/submit", json={"job": job}).json()["job_id"])
    rest.cluster.wait_state(job_id, "RUNNING")
    return job_id


def test_lines_arrive_while_it_runs_and_not_after(rest: LiveRest) -> None:
    folder = rest.cluster.work / "lines"
    folder.mkdir()
    script = "echo one; while [ ! -e two ]; do sleep 0.05; done; printf 'two\\303'; while [ ! -e three ]; do sleep 0.05; done"
    job = submit(rest, "", f"{script}; printf '\\251\\n'; exec sleep 600", folder)
    with rest.as_user() as client:
        url = f"{OWN}/jobs/{job}/output"

        def part(offset: int) -> tuple[str, int, int]:
            found = client.get(url, params={"offset": offset}).json()
            return found["text"], found["offset"], found["next_offset"]

        rest.cluster.wait(lambda: part(0) == ("one\n", 0, 4), "the first line")
        seen = client.get(url)
        assert seen.json()["path"] == f"{folder}/out" and seen.json()["is_live"]
        same = client.get(url, headers={"If-None-Match": seen.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        (folder / "two").touch()
        rest.cluster.wait(lambda: part(4) == ("two", 4, 7), "the second line, without half a character")
        (folder / "three").touch()
        rest.cluster.wait(lambda: part(7) == ("é\n", 7, 10), "the rest of it")
        assert client.get(url, params={"stream": "stderr", "lines": "1"}).json()["text"] == "twoé\n"
        assert client.get(url, params={"step": "7"}).json()["is_live"] is False
        rest.cluster.run("scancel", str(job)).ok()
        rest.cluster.wait_state(job, "CANCELLED")
        last = client.get(url, params={"offset": 4}).json()
        assert last["text"].startswith("twoé\n*** JOB")
        assert (last["is_live"], last["state"], last["warnings"]) == (False, "CANCELLED", [])
        unseen = submit(rest, "", "exec sleep 600", folder)
        rest.cluster.run("scancel", str(unseen)).ok()
        rest.cluster.wait_state(unseen, "CANCELLED")
        ended = client.get(f"{OWN}/jobs/{unseen}/output").json()
        assert (ended["is_live"], ended["state"], ended["path"]) == (False, "CANCELLED", f"{folder}/out")
        assert [one["description"].rpartition(": ")[2] for one in ended["warnings"]] == [f"penstock logs {unseen}"]
        assert client.get(f"{OWN}/jobs/999999/output").status_code == 404


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_others_and_what_the_user_puts_in_its_place(rest: LiveRest) -> None:
    """Only the job's user and administrators read it, and none of them more than the user could."""
    folder, secret = rest.cluster.work / "mine", rest.cluster.home / "secret"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    secret.write_text("of root")
    secret.chmod(0o600)
    rest.cluster.run("sacctmgr", "-i", "add", "user", "sys", "account=root", "adminlevel=operator")
    job = submit(rest, "nobody", "id -u; exec sleep 600", folder)
    url, out = f"{OWN}/jobs/{job}/output", folder / "out"
    with rest.as_user("nobody") as mine, rest.as_user("daemon") as other, rest.as_user("sys") as operator:
        rest.cluster.wait(lambda: mine.get(url).json()["text"] == "65534\n", "the line")
        for client in (other, operator):
            refused = client.get(url)
            assert (refused.status_code, refused.json()["errors"][0]["error_number"]) == (422, 2002)
        with rest.as_user() as admin:
            assert admin.get(url).json()["text"] == "65534\n"
            for target in (secret, Path("/etc/shadow"), Path("/proc/1/environ"), Path("/dev/zero")):
                out.unlink()
                out.symlink_to(target)
                for client in (mine, admin):
                    answer = client.get(url).json()
                    assert (answer["text"], answer["is_live"], len(answer["warnings"])) == ("", True, 1), target
            out.unlink()
            os.mkfifo(out)
            os.chown(out, 65534, 65534)
            assert admin.get(url).json()["warnings"][0]["description"] == f"node n1: {out}: it is no regular file"


def test_a_hundred_pollers_at_once(rest: LiveRest) -> None:
    """Each is answered or told to come back; the job and its node go on, and one caller has few at a time."""
    folder = rest.cluster.work / "polled"
    folder.mkdir()
    job = submit(rest, "", "echo here; exec sleep 600", folder)
    tokens = [rest.token() for _ in range(4)]

    async def poll() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=POLLERS)
        async with httpx.AsyncClient(base_url=rest.url, timeout=ANSWER_S, limits=limits) as client:
            return await asyncio.gather(
                *(
                    client.get(
                        f"{OWN}/jobs/{job}/output?offset={number % 3}",
                        headers={"X-SLURM-USER-TOKEN": tokens[number % len(tokens)]},
                    )
                    for number in range(POLLERS)
                )
            )

    with rest.as_user() as client:
        rest.cluster.wait(lambda: client.get(f"{OWN}/jobs/{job}/output").json()["text"] == "here\n", "the line")
        answers = asyncio.run(poll())
        assert {one.status_code for one in answers} <= {200, 429}
        texts = {one.json()["text"] for one in answers if one.status_code == 200}
        assert texts <= {"here\n", "ere\n", "re\n"} and texts
        assert all(int(one.headers["retry-after"]) for one in answers if one.status_code == 429)
        assert client.get(f"{OWN}/jobs/{job}/output").json()["text"] == "here\n"
    assert rest.cluster.job(job).state == "RUNNING"
