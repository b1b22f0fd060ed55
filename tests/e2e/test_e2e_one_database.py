"""Two clusters in one database of PostgreSQL. West is killed, and its accounting is read from east; no file names it there."""

import json
import os
import pwd
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from livecluster import ClusterConf, Done, LiveCluster
from liverest import LiveRest
from postgres import Server, change, rows

from sdk.cluster import Cluster
from sdk.errors import RequestRefused

ASSOCIATIONS = ("sacctmgr", "-nP", "show", "assoc", "cluster=west", "format=cluster,account,user,grpjobs")


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with Server() as server:
        yield server.new_database()


def conf(place: str, name: str, *more: str) -> ClusterConf:
    lines = (f"PenstockDatabaseUrl={place}", f"PenstockDatabaseSchema={name}", *more)
    return ClusterConf(name=name, more=("PriorityType=priority/multifactor", *lines))


def join(cluster: LiveCluster) -> None:
    """Gives the user of the test an association, as root has one anyway."""
    if os.geteuid():
        cluster.run("sacctmgr", "-i", "add", "user", pwd.getpwuid(os.geteuid()).pw_name, "account=root").ok()


def refused(done: Done, status: int, text: str) -> None:
    assert (done.status, done.out) == (status, ""), done
    assert text in done.err and "Traceback" not in done.err, done


def test_the_accounting_of_a_cluster_that_was_killed(place: str) -> None:
    with LiveCluster(1, conf(place, "east")) as east, LiveCluster(1, conf(place, "west", "FirstJobId=1001")) as west:
        west.run("sacctmgr", "-i", "add", "account", "physics", "GrpJobs=7").ok()
        job = west.sbatch("-o", "/dev/null", "-A", "physics", "--wrap", "exit 3")
        west.wait_state(job, "FAILED")
        mine = east.sbatch("-o", "/dev/null", "--wrap", "true")
        east.wait_state(mine, "COMPLETED")

        def shown(*words: str) -> str:
            return east.run(*words).ok().out

        # while it is up: nothing but the database is known of it here
        ports = {name: int(port) for name, port in (
            line.split("|") for line in shown("sacctmgr", "-nP", "list", "clusters", "format=cluster,controlport").splitlines()
        )}  # fmt: skip
        assert ports == {one.conf.name: int(one.file.address.rpartition(":")[2]) for one in (east, west)}
        west.kill("ctld", number=signal.SIGKILL)
        change(place, "UPDATE west.meta SET expires_at_us = 0")  # its lease ends
        before = rows(place, "SELECT epoch, sequence FROM west.meta")

        for words in (("-M", "west"), ("--clusters=west", "-j", str(job)), ("-M", "west,west", "-A", "physics")):
            assert shown("sacct", *words, "-XnP", "-o", "jobid,cluster,account,state,exitcode") == (
                f"{job}|west|physics|FAILED|3:0\n"
            )
        both = shown("sacct", "-L", "-XnP", "-o", "jobid,cluster,state")
        assert both == f"{mine}|east|COMPLETED\n{job}|west|FAILED\n"
        document = json.loads(shown("sacct", "-M", "west", "--json"))
        assert [(one["cluster"], one["job_id"], one["association"]["account"]) for one in document["jobs"]] == [
            ("west", job, "physics")
        ]
        assert shown("sacctmgr", "-nP", "list", "clusters", "format=cluster,controlhost,controlport") == (
            f"east|{east.file.host}|{ports['east']}\nwest||0\n"
        )
        assert "west|physics||7" in shown(*ASSOCIATIONS).splitlines()
        assert "physics" in shown("sacctmgr", "-nP", "show", "account", "cluster=west", "format=account")
        assert shown("sacctmgr", "-nP", "show", "wckey", "cluster=west") == ""
        assert shown("sacctmgr", "-nP", "show", "event", "cluster=west", "All_Time", "format=cluster,nodename") != ""
        west_usage = shown("sreport", "-M", "west", "-nP", "cluster", "Utilization", "start=now-2hours", "end=now")
        both_usage = shown("sreport", "-a", "-nP", "cluster", "Utilization", "start=now-2hours", "end=now")
        assert both_usage.endswith(west_usage)
        # what only its controller can do
        only_read = "cluster west can only be read here, from the database: a change needs its controller"
        for line in (
            "add account bio cluster=west",
            "modify account physics set grpjobs=1 where cluster=west",
            "delete account physics cluster=west",
        ):
            refused(east.run("sacctmgr", "-i", *line.split()), 1, only_read)
        refused(east.run("sacctmgr", "show", "runawayjobs", "cluster=west"), 1, "can only be read here")
        for line in ("squeue -M west", "sbatch -M west --wrap true", "scancel -M west 1"):
            refused(east.run(*line.split()), 1, "No cluster 'west' known by database.")
        for name in ("mars", 'we"st', "west'--", "penstock_clusters"):
            refused(east.run("sacct", "-M", name), 1, "known by database.")
        assert rows(place, "SELECT epoch, sequence FROM west.meta") == before
        # with a cluster file, but its controller does not answer; and when it is back
        (east.home / "clusters").mkdir()
        (east.home / "clusters" / "west.json").symlink_to(west.cluster_file)
        assert shown("sacct", "-M", "west", "-XnP", "-o", "jobid,cluster") == f"{job}|west\n"
        refused(
            east.run("sacctmgr", "-i", "add", "account", "bio", "cluster=west"),
            1,
            "a change of cluster west needs its controller to be up",
        )
        west.start_controller()
        east.run("sacctmgr", "-i", "add", "account", "bio", "cluster=west").ok()
        assert "west|bio||" in shown(*ASSOCIATIONS).splitlines()


def test_qos_shares_rest_and_python_know_the_other_cluster(place: str) -> None:
    """Of `north`, which no file names, from `south`."""
    enforced = ("AccountingStorageEnforce=limits", "AuthAltTypes=auth/jwt")
    with (
        LiveCluster(1, conf(place, "south", *enforced)) as south,
        LiveCluster(1, conf(place, "north", *enforced)) as north,
    ):
        join(south)
        join(north)
        north.run("sacctmgr", "-i", "add", "account", "physics", "GrpTRESMins=cpu=1000").ok()
        north.run("sacctmgr", "-i", "add", "qos", "gold", "priority=7").ok()
        job = north.sbatch("-o", "/dev/null", "-J", "told", "--wrap", "true")
        north.wait_state(job, "COMPLETED")

        def shown(*words: str) -> str:
            return south.run(*words).ok().out

        qos = ("sacctmgr", "-nP", "show", "qos", "format=name,priority")
        assert shown(*qos) == "normal|0\n"
        assert shown(*qos, "where", "cluster=north") == "normal|0\ngold|7\n"
        assert shown(*qos, "gold", "cluster=south,north") == "gold|7\n"
        assert shown(*qos, "cluster=mars") == ""
        refused(south.run("sacctmgr", "-i", "delete", "qos", "gold", "cluster=north"), 1, "can only be read here")
        refused(south.run("sacctmgr", "-i", "add", "qos", "x", "cluster=mars"), 1, "This cluster 'mars' doesn't exist.")
        shares = shown("sshare", "-M", "north,south", "-anP", "-o", "Cluster,Account,User,GrpTRESMins,TRESRunMins")
        headings = [line for line in shares.splitlines() if line.startswith("CLUSTER")]
        assert headings == ["CLUSTER: north", "CLUSTER: south"]
        assert "north| physics||cpu=1000|" in shares.splitlines(), "what its running jobs may use is not known"
        assert any(line.startswith("south|root|") and "cpu=0" in line for line in shares.splitlines())

        with Cluster(south.cluster_file) as cluster:
            since = datetime.now().astimezone() - timedelta(hours=1)
            assert [one.name for one in cluster.history(since, cluster="north")] == ["told"]
            assert cluster.history(since) == []
            with pytest.raises(RequestRefused, match="No cluster 'mars' known by database"):
                cluster.history(since, cluster="mars")

        rest = LiveRest(south)
        rest.start()
        with rest.as_user() as client:

            def got(path: str) -> dict:
                reply = client.get(f"/slurmdb/v0.0.46/{path}")
                assert (reply.status_code, reply.json()["errors"]) == (200, []), reply.text
                return reply.json()

            assert [(one["cluster"], one["job_id"]) for one in got("jobs?cluster=north")["jobs"]] == [("north", job)]
            assert got("jobs?cluster=south")["jobs"] == got("jobs")["jobs"] == []
            assert {one["cluster"] for one in got("associations?cluster=north")["associations"]} == {"north"}
            names = [one["name"] for one in got("clusters")["clusters"]]
            assert names[0] == "south" and "north" in names[1:]
            assert [one["name"] for one in got("cluster/north")["clusters"]] == ["north"]
            assert got("wckeys?cluster=north")["wckeys"] == []
            for path, words in (
                ("jobs?cluster=mars", "No cluster 'mars'"),
                ("jobs?cluster=north,south", "name one cluster"),
            ):
                reply = client.get(f"/slurmdb/v0.0.46/{path}")
                assert reply.status_code == 422 and words in reply.text, reply.text

        # with a file of it, everything else
        (south.home / "clusters").mkdir()
        (south.home / "clusters" / "north.json").symlink_to(north.cluster_file)
        submit = (
            "sbatch",
            "--parsable",
            "-M",
            "south,north",
            "--exclusive",
            "-J",
            "both",
            "-o",
            "/dev/null",
            "--wrap",
            "sleep 300",
        )
        (here, first), (there, second) = (shown(*submit).strip().split(";") for _ in range(2))
        assert (first, second) == ("south", "north"), "the second one starts there at once"
        south.wait_state(int(here), "RUNNING")
        north.wait_state(int(there), "RUNNING")
        assert shown("squeue", "-M", "all", "-h", "-o", "%i %t") == (
            f"CLUSTER: north\n{there} R\n\nCLUSTER: south\n{here} R\n"
        )
        assert shown("sinfo", "-M", "all", "-h", "-o", "%t") == "CLUSTER: north\nalloc\n\nCLUSTER: south\nalloc\n"
        assert f"JobId={there} " in shown("scontrol", "-M", "north", "show", "job", there)
        waiting = shown(*submit[:3], "north", *submit[4:]).strip().partition(";")[0]
        assert shown("sprio", "-M", "north", "-h", "-o", "%i").split() == ["CLUSTER:", "north", waiting]
        assert shown("sacctmgr", "-nP", "show", "federation") == ""
        south.run("scancel", "-M", "all", "-n", "both").ok()
        south.wait_ends(int(here))
        north.wait_ends(int(there))
        states = shown("sacct", "-L", "-XnP", "-j", f"{here},{there}", "-o", "cluster,state").splitlines()
        assert [line[: len("north|CANCELLED")] for line in states if "both" not in line][-2:] == [
            "north|CANCELLED", "south|CANCELLED",
        ]  # fmt: skip
