"""`penstock why`, `penstock fits`, `penstock plan` and sdiag with made-up answers: what they ask, and the words."""

import json

import pytest

from cli import sdiag
from cli.subcommands import fits, plan, why
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import explain_pb2 as pb
from penstock.values.refusals import Code
from tests.cli.fake_controller import FakeClient, run_body

T0 = 1_795_000_000_000_000  # 2026-11-18T11:06:40
HOUR_US = 3_600_000_000


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def waiting() -> pb.WhyJobReply:
    return pb.WhyJobReply(
        job_id=14, shown_id="12_4", name="train", user_name="ann", state="PENDING", reason="Priority", now_us=T0,
        obstacles=[
            pb.Obstacle(reason="BeginTime", text="it may not begin before", at_us=T0 + HOUR_US),
            pb.Obstacle(reason="Dependency", text="it waits for afterok:3 (RUNNING)"),
        ],
        planned=pb.PlannedStart(start_at_us=T0 + 2 * HOUR_US, node_list="gpu[07-08]", partition="main"),
        needs=[
            pb.NodesNeeded(
                partition="main", nodes_wanted=2, nodes_total=40, nodes_qualify=10, nodes_up=9, nodes_free=1,
                resources=[
                    pb.ResourceNeeded(name="cpu", amount=8, nodes_free=5), pb.ResourceNeeded(name="mem", amount=65536, nodes_free=9),
                    pb.ResourceNeeded(name="gres/gpu:h100", amount=4, nodes_free=1),
                ],
                next_free_at_us=T0 + HOUR_US, next_free_node="gpu03", enough_free_at_us=T0 + 2 * HOUR_US,
            )
        ],
        licenses=[pb.LicensesNeeded(name="matlab", wanted=2, free=1, enough_at_us=T0 + HOUR_US)],
        reservations=[pb.ReservationInTheWay(name="maint", start_at_us=T0, end_at_us=T0 + HOUR_US, nodes=1)],
        leaves=[pb.UsedLeaf(name="s1", nodes=2, jobs=[7], is_owned=True), pb.UsedLeaf(name="s2", nodes=1, jobs=[8, 9], jobs_more=1)],
        in_front=[
            pb.JobInFront(job_id=3, shown_id="3", user_name="bob", nodes=8, start_at_us=T0 + HOUR_US, node_list="gpu[01-08]"),
            pb.JobInFront(job_id=5, shown_id="5_[1-9]", user_name="eve", nodes=1),
        ],
        in_front_more=7, may_preempt=True,
        hints=[
            pb.Hint(options=["--time=4:00:00"], start_at_us=T0, node_list="gpu07", starts_now=True),
            pb.Hint(options=["without --constraint=h100", "--time=1:00:00"], start_at_us=T0 + HOUR_US, node_list="old1"),
        ],
    )  # fmt: skip


def test_why_says_everything(monkeypatch, capsys):
    client = FakeClient(WhyJob=waiting()).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock", why.main, "12_4")
    assert (status, err, client.request.id) == (0, "", "12_4")
    assert out == (
        "Job 12_4 (train, ann) waits: Priority. Jobs with a higher priority wait for the same nodes.\n"
        "In its way:\n"
        "  BeginTime: it may not begin before 2026-11-18T12:06:40\n"
        "  Dependency: it waits for afterok:3 (RUNNING)\n"
        "Planned to start at 2026-11-18T13:06:40 on gpu[07-08] in partition main.\n"
        "What it needs:\n"
        "  partition main: 2 nodes; of 40, 10 qualify, 9 of these are up, 1 has all of this free now\n"
        "    cpu=8 on each: free on 5 nodes\n"
        "    mem=64G on each: free on 9 nodes\n"
        "    gres/gpu:h100=4 on each: free on 1 node\n"
        "    next free on gpu03 at 2026-11-18T12:06:40; on 2 at 2026-11-18T13:06:40\n"
        "  license matlab: 2, 1 is free; enough at 2026-11-18T12:06:40\n"
        "  reservation maint keeps 1 node of these from 2026-11-18T11:06:40 to 2026-11-18T12:06:40\n"
        "  leaf s1 is used by job 7, which has it for itself alone: 2 nodes of these\n"
        "  leaf s2 is used by job 8, job 9, 1 other job: 1 node of these\n"
        "In front of it, for the same nodes:\n"
        "  3 of bob, 8 nodes, planned for 2026-11-18T12:06:40 on gpu[01-08]\n"
        "  5_[1-9] of eve, 1 node, no start known\n"
        "  and 7 more\n"
        "It may preempt running jobs, but those would not suffice now.\n"
        "It would start sooner:\n"
        "  with --time=4:00:00: now on gpu07\n"
        "  without --constraint=h100, with --time=1:00:00: at 2026-11-18T12:06:40 on old1\n"
    )


def test_why_in_json_has_numbers_and_null(monkeypatch, capsys):
    reply = waiting()
    FakeClient(WhyJob=reply).install(monkeypatch)
    found = json.loads(run_body(capsys, "penstock", why.main, "--json", "12_4")[1])
    assert found["planned"] == {
        "start_at_us": T0 + 2 * HOUR_US, "node_list": "gpu[07-08]", "partition": "main", "if_released": False
    }  # fmt: skip
    assert [hint["starts_now"] for hint in found["hints"]] == [True, False]
    reply.ClearField("planned")
    assert json.loads(run_body(capsys, "penstock", why.main, "12_4", "--json")[1])["planned"] is None


def test_why_of_a_job_that_does_not_wait(monkeypatch, capsys):
    reply = pb.WhyJobReply(
        job_id=3, shown_id="3", name="a", user_name="ann", state="RUNNING", last_event="start n1", last_event_at_us=T0
    )
    FakeClient(WhyJob=reply).install(monkeypatch)
    assert run_body(capsys, "penstock", why.main, "3") == (
        0, "Job 3 (a, ann) is RUNNING; last: start n1 at 2026-11-18T11:06:40\n", ""
    )  # fmt: skip


def test_why_without_a_plan_and_with_victims(monkeypatch, capsys):
    reply = pb.WhyJobReply(
        job_id=3, shown_id="3", name="a", user_name="ann", state="PENDING", reason="BadConstraints", victims=[8, 9]
    )
    FakeClient(WhyJob=reply).install(monkeypatch)
    assert run_body(capsys, "penstock", why.main, "3")[1].splitlines()[1:] == [
        "No start is planned for it.", "Preempted for it: 8, 9."
    ]  # fmt: skip


@pytest.mark.parametrize("words", [(), ("1", "2"), ("x",), ("--bogus", "1")])
def test_why_refuses_other_words(words, monkeypatch, capsys):
    client = FakeClient().install(monkeypatch)
    status, out, err = run_body(capsys, "penstock", why.main, *words)
    assert (status, out, client.calls) == (1, "", []) and err


@pytest.mark.parametrize("body", [lambda argv: why.main([*argv, "1"]), fits.main, sdiag.body])
def test_no_controller(body, monkeypatch, capsys):
    FakeClient(WhyJob=Unreachable("no"), Fits=Unreachable("no"), Diagnostics=Unreachable("no")).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock", body)
    assert (status, out) == (1, "") and err.startswith("penstock: error: ")


def test_fits(monkeypatch, capsys):
    reply = pb.FitsReply(
        partitions=[
            pb.PartitionFits(
                partition="main", state="UP", nodes_up=3,
                shapes=[
                    pb.FittingShape(kind="node", nodes=1, cpus=28, mem_mb=107520, gres_name="gpu", gres=2, limit_s=14400, node_list="n3"),
                    pb.FittingShape(kind="cpu_node", nodes=1, cpus=32, limit_s=-1, node_list="n4"),
                    pb.FittingShape(kind="whole_nodes", nodes=2, cpus=32, mem_mb=9, gres_name="gpu", gres=4, limit_s=60, node_list="n[1-2]"),
                    pb.FittingShape(kind="gpu_nodes", nodes=3, cpus=1, gres_name="gpu", gres=1, limit_s=-1, node_list="n[1-3]"),
                ],
            ),
            pb.PartitionFits(partition="old", state="DOWN", nodes_up=1),
        ]
    )  # fmt: skip
    client = FakeClient(Fits=reply).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock", fits.main, "-p", "main,old")
    assert (status, err, list(client.request.partitions)) == (0, "", ["main", "old"])
    assert out == (
        "partition main: UP, 3 nodes are up\n"
        "  largest job on one node   --cpus-per-task=28 --mem=105G --gres=gpu:2  for at least 4:00:00  n3\n"
        "  most CPUs on one node     --cpus-per-task=32  for any time  n4\n"
        "  whole nodes               --nodes=2 --exclusive  for at least 1:00  n[1-2]\n"
        "  nodes with GPUs           --nodes=3 --gres=gpu:1  for any time  n[1-3]\n"
        "partition old: DOWN, 1 node is up\n"
        "  nothing would start now\n"
    )
    assert json.loads(run_body(capsys, "penstock", fits.main, "--json")[1])["partitions"][1]["shapes"] == []
    assert run_body(capsys, "penstock", fits.main, "main")[0] == 1


def test_plan(monkeypatch, capsys):

    def moved(change: str, after_at_us: int = 0, after: str = "") -> pb.MovedJob:
        return pb.MovedJob(
            shown_id="7", name="x", user_name="ann", change=change, before_at_us=T0, before_node_list="n[1-2]",
            after_at_us=after_at_us, after_node_list=after,
        )  # fmt: skip

    jobs = [moved("never"), moved("later", T0 + HOUR_US, "n3"), moved("requeued", T0 + HOUR_US, "n3")]
    reply = pb.PlanChangeReply(jobs=jobs, more=2, unseen=1)
    client = FakeClient(ShowPlanChange=reply).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock", plan.main, "--without-nodes", "n[1-2]", "--drain")
    assert (status, err, list(client.request.nodes), client.request.jobs_run_on) == (0, "", ["n[1-2]"], True)
    assert out == (
        "JOB  NAME  USER  CHANGE         BEFORE               ON      AFTER                ON\n"
        "7    x     ann   never          2026-11-18T11:06:40  n[1-2]  -                    -\n"
        "7    x     ann   1:00:00 later  2026-11-18T11:06:40  n[1-2]  2026-11-18T12:06:40  n3\n"
        "7    x     ann   requeued       2026-11-18T11:06:40  n[1-2]  2026-11-18T12:06:40  n3\n"
        "and 2 more like these\n"
        "and 1 of other users\n"
    )
    assert json.loads(run_body(capsys, "penstock", plan.main, "--without-nodes", "n1", "--json")[1])["more"] == 2
    assert run_body(capsys, "penstock", plan.main)[0] == 1
    FakeClient(ShowPlanChange=pb.PlanChangeReply()).install(monkeypatch)
    out = run_body(capsys, "penstock", plan.main, "--without-nodes", "n1")[1]
    assert out == "no job would start at another time\n"


CLUSTER = ClusterFile("c")


def diagnostics() -> pb.DiagnosticsReply:
    return pb.DiagnosticsReply(
        now_us=T0 + HOUR_US, since_us=T0, jobs_at_us=T0 + HOUR_US, server_threads=4, agents=2, jobs_submitted=10,
        jobs_started=9, jobs_completed=5, jobs_canceled=2, jobs_failed=1, jobs_pending=1, jobs_running=3,
        main=pb.PassStatistics(cycles=120, last_us=7, max_us=90, total_us=2400, depth=600, last_queue=4),
        backfill=pb.PassStatistics(cycles=2, last_us=800, max_us=1200, total_us=2000, depth=300, last_depth=160, last_queue=160,
                                   queue=300, table_size=150),
        backfilled_jobs=3, backfilled_boot=8, last_backfill_at_us=T0, commits=4, commit_us=400,
        by_type=[pb.RpcCount(name="SubmitJob", count=9, total_us=90), pb.RpcCount(name="ListJobs", count=2, total_us=400),
                 pb.RpcCount(name="WhyJob", count=1, total_us=5)],
        by_user=[pb.RpcCount(name="ann", uid=1001, count=11, total_us=490)],
    )  # fmt: skip


def test_sdiag_has_slurms_layout(monkeypatch, capsys):
    FakeClient(Diagnostics=diagnostics()).install(monkeypatch)
    status, out, err = run_body(capsys, "sdiag", sdiag.body)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == "sdiag output at Wed Nov 18 12:06:40 2026 (1795003600)"
    assert lines[2] == "Data since      Wed Nov 18 11:06:40 2026 (1795000000)"
    at = lines.index("Main schedule statistics (microseconds):")
    assert lines[at + 1 : at + 8] == [
        "\tLast cycle:   7", "\tMax cycle:    90", "\tTotal cycles: 120", "\tMean cycle:   20", "\tMean depth cycle:  5",
        "\tCycles per minute: 2", "\tLast queue length: 4",
    ]  # fmt: skip
    at = lines.index("Backfilling stats")
    assert lines[at + 1 : at + 9] == [
        "\tTotal backfilled jobs (since last slurm start): 8", "\tTotal backfilled jobs (since last stats cycle start): 3",
        "\tTotal backfilled heterogeneous job components: 0", "\tTotal cycles: 2",
        "\tLast cycle when: Wed Nov 18 11:06:40 2026 (1795000000)", "\tLast cycle: 800", "\tMax cycle:  1200", "\tMean cycle: 1000",
    ]  # fmt: skip
    assert lines[-9:] == [
        "\tREQUEST_SUBMIT_BATCH_JOB                ( 4003) count:9      ave_time:10     total_time:90",
        "\tREQUEST_JOB_INFO                        ( 2003) count:2      ave_time:200    total_time:400",
        "\tWhyJob                                  (    0) count:1      ave_time:5      total_time:5",
        "",
        "Remote Procedure Call statistics by user",
        "\tann             (    1001) count:11     ave_time:44     total_time:490",
        "",
        "Pending RPC statistics",
        "\tNo pending RPCs",
    ]


def test_sdiag_names_the_cluster(monkeypatch, capsys):
    client = FakeClient(Diagnostics=diagnostics()).install(monkeypatch)
    client.cluster = CLUSTER
    assert run_body(capsys, "sdiag", sdiag.body, "-M", "c")[1].splitlines()[0] == "CLUSTER: c"
    assert run_body(capsys, "sdiag", sdiag.body, "-M", "d")[0] == 1


@pytest.mark.parametrize(
    ("option", "first"),
    [
        ("-i", "REQUEST_JOB_INFO"),
        ("-t", "REQUEST_JOB_INFO"),
        ("-T", "REQUEST_JOB_INFO"),
        ("-a", "REQUEST_SUBMIT_BATCH_JOB"),
    ],
)
def test_sdiag_sorts_calls(option, first, monkeypatch, capsys):
    FakeClient(Diagnostics=diagnostics()).install(monkeypatch)
    lines = run_body(capsys, "sdiag", sdiag.body, option)[1].splitlines()
    assert lines[lines.index("Remote Procedure Call statistics by message type") + 1].split()[0] == first


def test_sdiag_json_and_reset(monkeypatch, capsys):
    client = FakeClient(Diagnostics=diagnostics(), ResetDiagnostics=pb.ResetDiagnosticsReply()).install(monkeypatch)
    client.cluster = CLUSTER
    found = json.loads(run_body(capsys, "sdiag", sdiag.body, "--json")[1])
    assert (found["statistics"]["bf_cycle_mean"], found["errors"]) == (1000, [])
    calls = {one["message_type"]: one for one in found["statistics"]["rpcs_by_message_type"]}
    assert (calls["REQUEST_JOB_INFO"]["type_id"], calls["REQUEST_JOB_INFO"]["average_time"]["number"]) == (2003, 200)
    assert run_body(capsys, "sdiag", sdiag.body, "-r") == (0, "Reset scheduling statistics\n", "")
    assert client.calls[-1][0] == "ResetDiagnostics"
    client.answers["ResetDiagnostics"] = PenstockError(Code.ACCESS_DENIED, "Access/permission denied")
    assert run_body(capsys, "sdiag", sdiag.body, "-r") == (1, "", "sdiag: error: Access/permission denied\n")
