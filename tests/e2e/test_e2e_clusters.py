"""Two clusters of one machine: `east`, the own one, knows `west` by a file in the directory `clusters`."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from livecluster import ClusterConf, Done, LiveCluster
from patience import ANSWER_S

from penstock.client import Client
from penstock.clusterfile import write_cluster
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c


class Pair:
    """Commands run as for a user of `east`."""

    def __init__(self, east: LiveCluster, west: LiveCluster) -> None:
        self.east, self.west = east, west

    def run(self, *words: str, env: dict[str, str] | None = None) -> Done:
        return self.east.run(*words, env=env or {})

    def jobs(self) -> dict[str, list[int]]:
        return {one.conf.name: [job.job_id for job in one.active()] for one in (self.east, self.west)}


@pytest.fixture(scope="module")
def two() -> Iterator[Pair]:
    """Job ids of west begin at 1001."""
    with (
        LiveCluster(1, ClusterConf(name="east", cpus=2)) as east,
        LiveCluster(1, ClusterConf(name="west", cpus=4, more=("FirstJobId=1001",))) as west,
    ):
        (east.home / "clusters").mkdir()
        (east.home / "clusters" / "west.json").symlink_to(west.cluster_file)
        yield Pair(east, west)


@pytest.fixture
def pair(two: Pair) -> Iterator[Pair]:
    yield two
    two.east.clean()
    two.west.clean()


def submit(pair: Pair, *words: str) -> tuple[int, str]:
    """The job's number and cluster, by --parsable."""
    done = pair.run("sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap", "sleep 300").ok()
    number, _, name = done.out.strip().partition(";")
    return int(number), name


def test_listings_have_a_section_for_each_cluster(pair: Pair) -> None:
    own, _ = submit(pair, "-J", "here")
    other, name = submit(pair, "-M", "west", "-J", "there")
    assert (name, other > 1000) == ("west", True)
    assert pair.jobs() == {"east": [own], "west": [other]}
    assert pair.run("squeue", "-h", "-o", "%i %j").ok().out == f"{own} here\n"
    both = f"CLUSTER: east\n{own} here\n\nCLUSTER: west\n{other} there\n"
    for words in (("-M", "all"), ("--clusters=east,west",)):
        assert pair.run("squeue", *words, "-h", "-o", "%i %j").ok().out == both
    env = {"SLURM_CLUSTERS": "west"}
    assert pair.run("squeue", "-h", "-o", "%i %j", env=env).ok().out == f"CLUSTER: west\n{other} there\n"
    assert pair.run("sinfo", "-M", "west,east", "-h", "-o", "%c").ok().out == "CLUSTER: west\n4\n\nCLUSTER: east\n2\n"
    shown = pair.run("squeue", "-M", "west", "--json").ok().out
    assert [job["cluster"] for job in json.loads(shown[shown.index("{") :])["jobs"]] == ["west"]
    assert (
        pair.run("sshare", "-M", "west", "-A", "root", "-n", "-P", "-o", "Account")
        .ok()
        .out.startswith("CLUSTER: west\n")
    )


def test_an_unknown_cluster_does_not_hide_the_others(pair: Pair) -> None:
    done = pair.run("sinfo", "-M", "mars,west", "-h", "-o", "%c")
    assert (done.status, done.out) == (0, "CLUSTER: west\n4\n")
    assert done.err == "sinfo: error: No cluster 'mars' known by database.\n"
    done = pair.run("sbatch", "-M", "mars", "--wrap", "true")
    assert done.status == 1 and done.err.startswith("sbatch: error: No cluster 'mars' known by database.\n")
    assert pair.jobs() == {"east": [], "west": []}


def test_a_job_goes_where_it_starts_first(pair: Pair) -> None:
    assert submit(pair, "-M", "west,east", "-c", "2")[1] == "east"  # both at once: the own one
    first = pair.run("sbatch", "-M", "east,west", "-c", "2", "-o", "/dev/null", "--wrap", "sleep 300").ok().out
    number = int(first.split()[3])
    assert first == f"Submitted batch job {number} on cluster west\n"
    assert pair.jobs()["west"] == [number]
    done = pair.run("sbatch", "-M", "all", "-c", "3", "--parsable", "-o", "/dev/null", "--wrap", "true")
    assert done.status == 0 and done.out.endswith(";west\n")  # east has no such node
    assert done.err.startswith("sbatch: error: Problem with submit to cluster east: Requested node configuration")
    done = pair.run("sbatch", "-M", "all", "-c", "64", "--wrap", "true")
    assert done.status == 1
    assert done.err.splitlines()[-1] == "sbatch: error: Can't run on any of the specified clusters"


def test_cancelling_and_scontrol(pair: Pair) -> None:
    own, _ = submit(pair, "-J", "same")
    other, _ = submit(pair, "-M", "west", "-J", "same")
    assert pair.run("scancel", str(other)).status == 1  # not a job of east
    assert f"JobId={other} " in pair.run("scontrol", "-M", "west", "show", "job", str(other)).ok().out
    done = pair.run("scontrol", "-M", "all", "show", "job")
    assert (done.status, done.err) == (1, "scontrol: fatal: Only one cluster can be used at a time with scontrol\n")
    pair.run("scancel", "-M", "all", "-n", "same").ok()
    pair.east.wait_ends(own)
    pair.west.wait_ends(other)
    shown = pair.run("sacct", "-M", "all", "-X", "-P", "-j", f"{own},{other}", "-o", "Cluster,JobID").ok().out
    assert shown == f"Cluster|JobID\neast|{own}\nwest|{other}\n"
    found = json.loads(pair.run("sacct", "-L", "-j", f"{own},{other}", "--json").ok().out)
    assert [(job["cluster"], job["job_id"]) for job in found["jobs"]] == [("east", own), ("west", other)]


def test_what_salloc_starts_uses_its_cluster(pair: Pair) -> None:
    inside = "srun sh -c 'echo $SLURM_CLUSTER_NAME'; squeue -h -o %i -j $SLURM_JOB_ID; sinfo -M east -h -o %c"
    done = pair.run("salloc", "-Q", "-M", "west", "sh", "-c", inside).ok()
    cluster, job, *rest = done.out.splitlines()
    assert (cluster, int(job) > 1000, rest) == ("west", True, ["CLUSTER: east", "2"])
    assert pair.run("srun", "-Q", "-M", "west", "sh", "-c", "echo $SLURM_CLUSTER_NAME").ok().out == "west\n"


def test_sacctmgr_and_sreport(pair: Pair) -> None:
    east, west = (f"{one.conf.name}|127.0.0.1|{one.command_port}" for one in (pair.east, pair.west))
    words = ("sacctmgr", "-n", "-P", "list", "clusters", "format=cluster,controlhost,controlport")
    assert [line.replace("localhost", "127.0.0.1") for line in pair.run(*words).ok().out.splitlines()] == [east, west]
    pair.run("sacctmgr", "-i", "add", "account", "physics", "cluster=west").ok()
    assert pair.run("sacctmgr", "-n", "-P", "list", "account", "physics", "format=account").ok().out == ""
    shown = pair.run("sacctmgr", "-P", "list", "assoc", "cluster=east,west", "format=cluster,account,user").ok().out
    assert shown.splitlines()[0] == "Cluster|Account|User" and "west|physics|" in shown and "east|root|" in shown
    assert shown.count("Cluster|") == 1 and "east|physics" not in shown
    done = pair.run("sacctmgr", "-i", "add", "cluster", "west")
    assert (done.status, done.out) == (1, " This cluster west already exists.  Not adding.\n")
    done = pair.run("sacctmgr", "-n", "list", "assoc", "cluster=mars")
    assert (done.status, done.out, done.err) == (0, "", "")  # as slurmdbd: a condition that nothing meets
    done = pair.run("sacctmgr", "-i", "add", "account", "physics", "cluster=mars")
    assert done.status == 1 and "This cluster 'mars' doesn't exist." in done.err
    pair.run("sacctmgr", "-i", "modify", "cluster", "west", "set", "maxjobs=9").ok()
    listed = pair.run("sacctmgr", "-n", "-P", "list", "clusters", "format=cluster,maxjobs").ok().out
    assert listed == "east|\nwest|9\n"
    pair.run("sacctmgr", "-i", "modify", "cluster", "west", "set", "maxjobs=-1").ok()
    done = pair.run("sacctmgr", "-i", "delete", "cluster", "west")
    assert done.status == 1 and "Requested operation not supported on this system" in done.err
    report = pair.run("sreport", "-a", "-n", "-P", "cluster", "utilization", "start=2020-01-01", "format=cluster").ok()
    assert not set(report.out.split()) - {"east", "west"}


def test_a_token_of_one_cluster_is_worth_nothing_on_the_other(pair: Pair) -> None:
    """Only the auth socket is exchanged: east's controller vouches for this user, to west."""
    forged = pair.west.file._replace(call_socket="", auth_socket=pair.east.file.auth_socket)
    with Client.open(5.0, cluster=forged) as client, pytest.raises(PenstockError) as caught:
        client.call("Ping", c.PingRequest())
    assert "the token's signer is not trusted" in caught.value.text


def test_a_login_host_of_both(pair: Pair) -> None:
    """West is reached over TLS, with the tokens of its own login daemon, as docs/clusters.md sets it up."""
    token = pair.west.run("penstock", "node", "token", "--role", "login", "front1").out.strip()
    folder, certs = pair.west.home / "login", pair.west.home / "certs" / "front1"
    line = [sys.executable, "-P", "-m", "cli.penstock", "noded", "--node-name", "front1", "--cert-dir", str(certs)]
    line += ["--controller", f"127.0.0.1:{pair.west.command_port}", "--spool", str(folder)]
    run: dict[str, Any] = {"env": pair.east.environment(), "cwd": pair.west.home, "stderr": subprocess.DEVNULL}
    subprocess.run(
        [*line, "--join", "-"], input=token, check=True, text=True, timeout=ANSWER_S, stdout=subprocess.DEVNULL, **run
    )
    daemon = subprocess.Popen([*line, "--login"], **run)
    try:
        pair.west.wait((folder / "cluster.json").exists, "the login host serves", alive=())
        env = {"PENSTOCK_CLUSTERS": str(folder / "cluster.json")}
        done = pair.run("sinfo", "-M", "all", "-h", "-o", "%c", env=env).ok()
        assert done.out == "CLUSTER: east\n2\n\nCLUSTER: west\n4\n"
        listed = pair.run("sacctmgr", "-n", "-P", "list", "clusters", "format=cluster,controlport", env=env).ok()
        assert listed.out.splitlines()[1] == f"west|{pair.west.command_port}"
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(ANSWER_S)


def test_a_cluster_that_is_down_fails_alone(pair: Pair) -> None:
    folder = pair.east.home / "clusters"
    dead = pair.west.file._replace(cluster_name="dead", socket="", call_socket="", address="127.0.0.1:9")
    write_cluster(folder / "dead.json", dead)
    try:
        done = pair.run("sinfo", "-M", "dead,west", "-h", "-o", "%c")
        assert (done.status, done.out) == (1, "CLUSTER: dead\n\nCLUSTER: west\n4\n")
        assert "Unable to contact slurm controller" in done.err
        done = pair.run("sacctmgr", "-n", "-P", "list", "clusters", "format=cluster,controlport,rpc")
        assert done.status == 0 and done.out.splitlines()[0] == "dead|0|0" and "cluster dead: Unable" in done.err
        assert submit(pair, "-M", "west")[1] == "west"
    finally:
        (folder / "dead.json").unlink()
