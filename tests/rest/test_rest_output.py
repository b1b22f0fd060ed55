"""The output of running jobs over REST, on a real cluster: lines as they come, who may read them, and attacks on who reads."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from livecluster import ClusterConf
from liverest import JWT, PREFIX, LiveRest
from patience import ANSWER_S

OWN = "/penstock/v1"
POLLERS = 100


def submit(rest: LiveRest, user: str, script: str, folder: Path, state: str = "RUNNING") -> int:
    """A job of this user, "" = who runs the tests, which runs in the folder; its id, when it is in this state."""
    job = {
        "name": "rout", "current_working_directory": str(folder), "environment": ["PATH=/usr/bin:/bin"],
        "script": f"#!/bin/sh\n{script}\n", "standard_output": "out",
    }  # fmt: skip
    with rest.as_user(user) as client:
        job_id = int(client.post(f"{PREFIX}/job/submit", json={"job": job}).json()["job_id"])
    rest.cluster.wait_state(job_id, state)
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
        assert client.get(f"{OWN}/jobs/999999/output").status_code == 404


SRUNS = """\
srun -N2 -n2 --overlap -o task-%t-%N sh -c 'echo of task $SLURM_PROCID; while [ ! -e go ]; do sleep 0.05; done' &
srun -N1 -n1 --overlap -o own-%s -e err.%J sh -c 'echo of srun; echo bad >&2; while [ ! -e go ]; do sleep 0.05; done' &
wait; echo all
"""


def test_tasks_of_steps_files_of_srun_and_ended_jobs(rest: LiveRest) -> None:
    """Each while it runs and after its end, when nobody has asked before; the files stay where the job's record has them."""
    folder = rest.cluster.work / "steps 100%"
    folder.mkdir()
    job = rest.cluster.sbatch("-N2", "-n2", "-D", str(folder), "-o", "out", "--wrap", SRUNS)
    url = f"{OWN}/jobs/{job}/output"
    with rest.as_user() as client:

        def part(**query: object) -> tuple[str, str]:
            found = client.get(url, params={name: str(value) for name, value in query.items()}).json()
            return found["text"], found["path"].rpartition("/")[2]

        def names() -> set[str]:
            return {name for step in (0, 1) if (name := part(step=step)[1])}

        rest.cluster.wait(lambda: len(names()) == 2, "both steps' files")
        tasks = next(step for step in (0, 1) if part(step=step)[1] == "task-0-n1")
        own = 1 - tasks
        wanted = {
            (tasks, 0, "stdout"): ("of task 0\n", "task-0-n1"), (tasks, 1, "stdout"): ("of task 1\n", "task-1-n2"),
            (own, 0, "stdout"): ("of srun\n", f"own-{own}"), (own, 0, "stderr"): ("bad\n", f"err.{job}.{own}"),
        }  # fmt: skip
        for (step, task, stream), found in wanted.items():
            rest.cluster.wait(lambda: part(step=step, task=task, stream=stream) == found, f"{step}, {task}, {stream}")
        none = client.get(url, params={"step": tasks, "task": 9}).json()
        assert none["warnings"][0]["description"] == "the step has no task 9" and none["is_live"]
        (folder / "go").touch()
        rest.cluster.wait_state(job, "COMPLETED")
        for (step, task, stream), found in wanted.items():
            assert part(step=step, task=task, stream=stream) == found
        assert part() == ("all\n", "out")
        ended = client.get(url).json()
        assert (ended["is_live"], ended["node"], ended["path"], ended["warnings"]) == (False, "n1", f"{folder}/out", [])
        assert client.get(url, headers={"If-None-Match": client.get(url).headers["etag"]}).status_code == 304
        assert (
            client.get(url, params={"step": 7})
            .json()["warnings"][0]["description"]
            .startswith(f"the files of step {job}.7")
        )
        (folder / "out").unlink()
        gone = client.get(url).json()["warnings"][0]["description"]
        assert gone.startswith(f"node n1: {folder}/out: No such file or directory; ") and gone.endswith(
            f"penstock logs {job}"
        )


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
            assert (refused.status_code, refused.json()["errors"][0]["error_number"]) == (403, 2002)
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


def test_a_job_that_only_the_database_has_and_a_node_that_is_gone(new_rest: Callable[..., LiveRest]) -> None:
    rest = new_rest(ClusterConf(more=(*JWT.more, "MinJobAge=2")))
    cluster, folder = rest.cluster, rest.cluster.work
    job = submit(rest, "", "echo one", folder, state="COMPLETED")
    url, out = f"{OWN}/jobs/{job}/output", folder / "out"
    with rest.as_user() as client:
        cluster.wait(lambda: not cluster.jobs(job), "the controller has forgotten it")
        assert client.get(url).json()["text"] == "one\n"
        assert client.get(url, params={"step": 0}).json()["warnings"][0]["description"].startswith("the files of step")
        cluster.kill("n1")
        cluster.wait(lambda: "DOWN" in cluster.run("sinfo", "-h", "-o", "%T").out.upper() or
                     "node n1, which is not connected" in client.get(url).text, "it is known to be gone")  # fmt: skip
        gone = client.get(url).json()
        assert gone["warnings"][0]["description"].startswith("the files are read on node n1, which is not connected; ")
        assert (gone["text"], gone["path"]) == ("", str(out))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_the_user_puts_in_the_place_of_an_ended_jobs_output(rest: LiveRest) -> None:
    """Read as its user is allowed to now, by nobody else than before, and never as root."""
    folder, secret = rest.cluster.work / "ended", rest.cluster.home / "secret2"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    secret.write_text("of root")
    secret.chmod(0o640)
    job = submit(rest, "nobody", "id -u", folder, state="COMPLETED")
    url, out = f"{OWN}/jobs/{job}/output", folder / "out"
    with rest.as_user("nobody") as mine, rest.as_user("daemon") as other, rest.as_user() as admin:
        assert (mine.get(url).json()["text"], admin.get(url).json()["text"]) == ("65534\n", "65534\n")
        refused = other.get(url)
        assert (refused.status_code, refused.json()["errors"][0]["error_number"]) == (403, 2002)
        for target, why in {
            str(secret): "Permission denied", "/etc/shadow": "Permission denied", "/dev/zero": "it is no regular file",
            "/proc/1/environ": "it is a file of the kernel", str(folder): "it is no regular file",
        }.items():  # fmt: skip
            out.unlink()
            out.symlink_to(target)
            for client in (mine, admin):
                answer = client.get(url).json()
                assert answer["text"] == "" and f"node n1: {out}: {why}; " in answer["warnings"][0]["description"], (
                    target
                )
        out.unlink()
        os.mkfifo(out)
        os.chown(out, 65534, 65534)
        assert f"{out}: it is no regular file" in admin.get(url).json()["warnings"][0]["description"]
        with pytest.raises(OSError, match="No such device"):  # nobody has opened its other end
            os.open(out, os.O_WRONLY | os.O_NONBLOCK)


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
    rest.cluster.run("scancel", str(job)).ok()
    rest.cluster.wait_state(job, "CANCELLED")
    ended = asyncio.run(poll())  # at first of the supervisor that has been followed, then by a process for each
    assert {one.status_code for one in ended} <= {200, 429}
    assert any("ere\n*** JOB" in one.json()["text"] for one in ended if one.status_code == 200)
