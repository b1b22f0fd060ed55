"""The scheduler explains itself on a live cluster: one job runs, one waits behind it."""

import json
import re
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster

DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


def busy(new_cluster: Callable[..., LiveCluster]) -> tuple[LiveCluster, int, int, int]:
    """Two nodes of 16 CPUs and 4 GPUs: `runs` has all of n1, `wide` wants both, `late` stands behind it."""
    cluster = new_cluster(2, ClusterConf(gpus=4))
    runs = cluster.sbatch("--exclusive", "--nodelist=n1", "--time=55", "--mem=0", "--job-name=runs", "--wrap=sleep 300")
    cluster.wait_state(runs, "RUNNING")
    wide = cluster.sbatch("--nodes=2", "--exclusive", "--time=30", "--mem=0", "--job-name=wide", "--wrap=true")
    late = cluster.sbatch("--time=120", "--gres=gpu:2", "--mem=100", "--job-name=late", "--wrap=sleep 300")
    cluster.wait(lambda: cluster.job(late).reason == "Priority", "it waits")
    return cluster, runs, wide, late


def test_planned_starts_are_shown_everywhere(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster, runs, wide, late = busy(new_cluster)
    lines = cluster.run("squeue", "--start").ok().out.splitlines()
    assert lines[0].split() == [
        "JOBID",
        "PARTITION",
        "NAME",
        "USER",
        "ST",
        "START_TIME",
        "NODES",
        "SCHEDNODES",
        "NODELIST(REASON)",
    ]
    rows = [line.split() for line in lines[1:]]
    assert [int(row[0]) for row in rows] == [wide, late]  # in the order of their starts
    assert all(re.fullmatch(DATE, row[5]) for row in rows)
    assert rows[0][5] < rows[1][5] and rows[0][7] == "n[1-2]" and rows[0][8] == "(Resources)"
    shown = cluster.run("scontrol", "show", "job", str(wide)).ok().out
    assert f"StartTime={rows[0][5]} EndTime=2" in shown
    assert "NodeList=(null) SchedNodeList=n[1-2]\n" in shown
    assert re.search(rf"LastSchedEval={DATE} Scheduler=Backfill\n", shown)
    assert "Scheduler=Main" in cluster.run("scontrol", "show", "job", str(runs)).ok().out
    (job,) = json.loads(cluster.run("squeue", "--json", "-j", str(wide)).ok().out)["jobs"]
    assert job["scheduled_nodes"] == "n[1-2]" and job["start_time"]["number"] > job["submit_time"]["number"]
    assert (
        cluster.run("squeue", "-h", "-j", str(late), "-O", "StartTime:30,SchedNodes").ok().out.split()[0] == rows[1][5]
    )
    said = cluster.run("sbatch", "--test-only", "--time=10", "--mem=100", "--nodelist=n1", "-n4", "--wrap=true")
    assert said.status == 0 and re.fullmatch(
        rf"sbatch: Job \d+ to start at {DATE} using 4 processors on nodes n1 in partition main\n", said.err
    ), said
    said = cluster.run("sbatch", "--test-only", "--time=10", "--mem=100", "-n4", "--wrap=true")
    assert "on nodes n2 in partition main" in said.err  # a gap before `wide`


def test_why_and_the_hint_is_true(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster, runs, wide, late = busy(new_cluster)
    text = cluster.run("penstock", "why", str(late)).ok().out
    lines = text.splitlines()
    assert re.fullmatch(rf"Job {late} \(late, \w+\) waits: Priority\. Jobs with a higher priority .*", lines[0])
    assert re.search(rf"Planned to start at {DATE} on n[12] in partition main\.", text)
    assert "partition main: 1 node; of 2, 2 qualify, 2 of these are up, 1 has all of this free now" in text
    assert re.search(
        rf"In front of it, for the same nodes:\n  {wide} of \w+, 2 nodes, planned for {DATE} on n\[1-2\]\n", text
    )
    (hint,) = re.findall(r"  with --time=(\S+): now on n2", text)
    cluster.run("scontrol", "update", f"JobId={late}", f"TimeLimit={hint}").ok()
    cluster.wait_state(late, "RUNNING")
    found = json.loads(cluster.run("penstock", "why", "--json", str(wide)).ok().out)
    assert found["job_id"] == wide and found["planned"]["node_list"] == "n[1-2]"
    assert "is RUNNING; last: start n1" in cluster.run("penstock", "why", str(runs)).ok().out
    lost = cluster.run("penstock", "why", "999999")
    assert (lost.status, lost.err) == (1, "penstock: error: Invalid job id specified: 999999\n")


def test_fits_and_sdiag(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster, *_ = busy(new_cluster)
    text = cluster.run("penstock", "fits").ok().out
    assert text.startswith("partition main: UP, 2 nodes are up\n")
    assert "--cpus-per-task=16 --mem=16000M --gres=gpu:4  for at least 45:00  n2" in text
    assert json.loads(cluster.run("penstock", "fits", "--json").ok().out)["partitions"][0]["nodes_up"] == 2
    wrong = cluster.run("penstock", "fits", "-p", "nowhere")
    assert wrong.status == 1 and "nowhere" in wrong.err
    said = cluster.run("sdiag").ok().out
    assert re.search(r"^Jobs submitted: 3\nJobs started:   1\n", said, re.M)
    assert re.search(r"^Main schedule statistics \(microseconds\):\n\tLast cycle:   [1-9]", said, re.M)
    assert re.search(r"^\tREQUEST_SUBMIT_BATCH_JOB +\( 4003\) count:3 ", said, re.M)
    found = json.loads(cluster.run("sdiag", "--json").ok().out)["statistics"]
    assert found["jobs_submitted"] == 3 and found["schedule_cycle_total"] >= 2
    assert cluster.run("sdiag", "-r").ok().out == "Reset scheduling statistics\n"
    assert "Jobs submitted: 0\n" in cluster.run("sdiag").ok().out
