"""Processes die at every crash point there is: an acknowledged job is never lost, never run twice, never gets another's id.

The storm: a controller is started with one crash point armed, clients that try again submit a job that runs and one that
is cancelled, and as soon as the controller has died there the next one is started with the next point armed, over the
same database and nodes. At the end a controller without a crash point brings everything to its end, and the replies
to clients, what the jobs wrote down and what accounting holds are compared.

A point may be passed many times in a life (each batch passes the four of a commit), and where it strikes decides what
is tested: `NAME@3` strikes at the third pass. `test_crash_points_are_all_known_and_all_passed` is the dry run that says
what there is.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from livecluster import CTLD, ENDED, LOGGING_SCRIPT, ClusterConf, LiveCluster, in_contact, read_log, shown
from patience import ANSWER_S, END_S

from penstock.client import Client
from penstock.crash import COMMIT_POINTS, CONTROLLER_POINTS, EXIT_STATUS, NODE_POINTS
from penstock.errors import Unreachable
from penstock.v1 import common_pb2 as m
from penstock.v1 import controller_pb2 as c
from penstock.values.requestkey import new_request_key

New = Callable[..., LiveCluster]
CRASHED = EXIT_STATUS
COMMIT = tuple(COMMIT_POINTS)
SUBMIT = ("submit:before-step", "submit:stepped", "submit:before-reply")
START = ("launch:before-send", "launch:after-send", "started:before-step")
END = ("exited:before-step", "report:before-ack", "report:after-ack", "forget:before-send")
CANCEL = ("cancel:before-step", "terminate:before-send")
#: A node speaks of itself and of its GPUs when something is wrong with them, and of the profile of a step that lasts for
#: a while: swept in tests/rpc/test_rpc_crash.py.
ELSEWHERE = (
    "notice:before-step", "gpus:before-step", "gpu_work_done:before-step", "gpu_idle:before-step", "profile:before-step",
)  # fmt: skip
#: A client that waits for a controller to come back: longer than two cold starts on a busy machine.


def at_passes(points: tuple[str, ...], *passes: int) -> tuple[str, ...]:
    return tuple(f"{point}@{number}" for number in passes for point in points)


class Told:
    """The replies to one client."""

    def __init__(self, name: str, takes_back: bool = False, hold: bool = False) -> None:
        self.name = name
        self.takes_back = takes_back
        self.hold = hold
        self.key = new_request_key(time.time_ns() // 1000, os.urandom(16))
        self.job_id = 0
        self.error: BaseException | None = None


class Storm:
    """Clients, a log that the jobs write, and a controller that dies."""

    def __init__(self, cluster: LiveCluster, with_cancel: bool) -> None:
        self.cluster = cluster
        self.log = cluster.work / "runs.log"
        self.with_cancel = with_cancel
        self.told: list[Told] = []
        self.threads: list[threading.Thread] = []

    def request(self, told: Told) -> c.SubmitJobRequest:
        job = m.JobRequest(
            name=told.name, work_dir=os.fsencode(self.cluster.work), std_out=b"/dev/null", hold=told.hold
        )
        gate = os.fsencode(self.cluster.work / "never") if told.takes_back else b""
        script = m.JobSpec(
            script=LOGGING_SCRIPT, argv=[os.fsencode(self.log), gate], environment=[b"PATH=/usr/bin:/bin"]
        )
        return c.SubmitJobRequest(request_key=told.key, job=job, spec=script)

    def _client(self, told: Told) -> None:
        try:
            with Client.open(ANSWER_S, retry=True, cluster=self.cluster.file) as client:
                told.job_id = client.call("SubmitJob", self.request(told)).job_id
                if told.takes_back:
                    self.cluster.wait(lambda: self.begun(told.job_id), f"job {told.job_id} has begun", END_S)
                    which = c.JobFilter(ids=[str(told.job_id)])
                    client.call("CancelJobs", c.CancelJobsRequest(filter=which))

        except BaseException as error:  # handed to the test, which fails with it
            told.error = error

    def begun(self, job_id: int) -> bool:
        return any(line.job_id == job_id for line in read_log(self.log)[0])

    def submit(self) -> None:
        """Two clients: one wants a job that runs, one takes its job back."""
        number = len(self.told)
        for takes_back in (False, True) if self.with_cancel else (False,):
            told = Told(f"storm-{number}-{takes_back}", takes_back)
            self.told.append(told)
            self.threads.append(threading.Thread(target=self._client, args=(told,), daemon=True))
            self.threads[-1].start()

    def strike(self, point: str, quiet: Callable[[], bool]) -> bool:
        """Run a controller until it dies at that point; False if it has nothing more to do and lives."""
        self.cluster.call_limit_s = 1.0
        self.cluster.forget_client()
        daemon = self.cluster.start_controller(wait=False, PENSTOCK_CRASH_AT=point)
        self.submit()
        self.cluster.wait(
            lambda: not daemon.runs() or (not any(t.is_alive() for t in self.threads) and quiet()),
            f"the controller dies at {point}",
            END_S,
        )
        if daemon.runs():
            self.cluster.kill(CTLD)
            return False
        assert daemon.process.returncode == CRASHED, (
            f"{point}: status {daemon.process.returncode}\n{self.cluster.logs()}"
        )
        return True

    def settle(self) -> None:
        """All clients get their answers, from a controller that lives."""
        self.cluster.call_limit_s = END_S
        self.cluster.forget_client()
        self.cluster.start_controller()
        for thread in self.threads:
            thread.join(ANSWER_S)
            assert not thread.is_alive(), f"a client still waits\n{self.cluster.logs()}"
        assert [t.error for t in self.told if t.error] == []

    def check_ids(self) -> None:
        """Every acknowledged job is there, under its own id, once; the same request again is answered with the same id."""
        jobs = self.cluster.jobs()
        ids = {t.job_id: t.name for t in self.told}
        assert len(ids) == len(self.told) and 0 not in ids
        assert {j.job_id: j.request.name for j in jobs} == ids
        again = [self.cluster.call("SubmitJob", self.request(t)).job_id for t in self.told]
        assert again == [t.job_id for t in self.told]
        newest = self.cluster.sbatch("--hold", "--wrap", "true")
        assert newest > max(ids)
        self.cluster.run("scancel", str(newest)).ok()

    def check_runs(self) -> None:
        """Each job has run once and is recorded once, with its own exit; what was taken back came to no end."""
        runs = [t for t in self.told if not t.takes_back]
        self.cluster.wait_nodes()
        ended = self.cluster.wait_ends(*(t.job_id for t in self.told), limit_s=END_S)
        states = {j.job_id: j.state for j in ended}
        assert {t.job_id: "CANCELLED" if t.takes_back else "COMPLETED" for t in self.told} == states, self.explain()
        begins, ends = read_log(self.log)
        begun = Counter(line.job_id for line in begins)
        assert begun == {t.job_id: 1 for t in self.told}, self.explain()
        assert Counter(line.job_id for line in ends) == Counter(t.job_id for t in runs), self.explain()
        records = self.cluster.records(*states)
        assert Counter(r.job_id for r in records) == Counter(states.keys())
        for record in records:
            assert record.state == states[record.job_id]
            assert record.submit_at_us <= (record.start_at_us or record.end_at_us) <= record.end_at_us
        for line in ends:
            (record,) = (r for r in records if r.job_id == line.job_id)
            assert [s.exit.code for s in record.steps] == [0] and record.attempt == line.attempt == 0

    def check_spools(self) -> None:
        """All reports of the nodes are acknowledged: nothing is left in their spools."""

        def left() -> list[str]:
            return [step for name in self.cluster.node_names for step in self.cluster.held_steps(name)]

        self.cluster.wait(lambda: not left(), "the spools are empty", show=left)

    def explain(self) -> str:
        lines = [str(shown(j)) for j in self.cluster.jobs()]
        return "\n".join([*lines, self.log.read_text() if self.log.exists() else "no run", self.cluster.logs()])


def run_storm(cluster: LiveCluster, points: tuple[str, ...], *, nodes: bool = True, with_cancel: bool = False) -> Storm:
    """Kill a controller at each of these points, one after the other. Without nodes, jobs are only submitted."""
    storm = Storm(cluster, with_cancel)
    for name in cluster.node_names if nodes else ():
        cluster.start_node(name)

    def quiet() -> bool:
        try:
            return not nodes or (all(in_contact(cluster.node(n)) for n in cluster.node_names) and not cluster.active())
        except Unreachable:  # it dies just now
            return False

    lived = [point for point in points if not storm.strike(point, quiet)]
    assert [p for p in lived if "@" not in p] == []  # of the numbered ones, a life may have fewer
    storm.settle()
    return storm


def test_crash_points_are_all_known_and_all_passed(new_cluster: New) -> None:
    """The dry run: what the sweep kills at is what there is, and one life of a cluster passes by all of it."""
    swept = {*COMMIT, *SUBMIT, *START, *END, *CANCEL}
    assert swept | set(ELSEWHERE) == set(CONTROLLER_POINTS)
    cluster = new_cluster(1, start=False)
    listing = cluster.home / "points"
    cluster.start_controller(PENSTOCK_CRASH_LIST=str(listing))
    cluster.start_node("n1")
    cluster.wait_nodes()
    first = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
    second = cluster.sbatch("-o", "/dev/null", "--wrap", "exec sleep 300")
    cluster.wait_state(first, "COMPLETED")
    cluster.wait_state(second, "RUNNING")
    cluster.run("scancel", str(second)).ok()
    cluster.wait_state(second, "CANCELLED")
    cluster.wait(lambda: set(listing.read_text().split()) == swept, "all points have been passed",
                 show=lambda: swept - set(listing.read_text().split()))  # fmt: skip


def test_scenario_01_controller_dies_at_each_point_of_submit(new_cluster: New) -> None:
    cluster = new_cluster(start=False)
    storm = run_storm(cluster, (*SUBMIT, *at_passes(COMMIT, 1, 2)), nodes=False)
    storm.check_ids()
    assert {j.state for j in cluster.jobs() if j.job_id in {t.job_id for t in storm.told}} == {"PENDING"}


def test_scenario_02_five_submits_then_kill(new_cluster: New) -> None:
    """What Slurm loses: jobs acknowledged right before kill -9."""
    cluster = new_cluster(start=False)
    cluster.start_controller()
    storm = Storm(cluster, with_cancel=False)
    for _ in range(3):
        before = max((t.job_id for t in storm.told), default=0)
        told = [Told(f"round-{before}-{i}", hold=True) for i in range(5)]
        for one in told:
            one.job_id = cluster.call("SubmitJob", storm.request(one)).job_id
        cluster.kill(CTLD)
        storm.told += told
        cluster.start_controller()
        assert {t.job_id: t.name for t in storm.told} == {j.job_id: j.request.name for j in cluster.jobs()}
        assert min(t.job_id for t in told) > before
    storm.check_ids()


def test_scenario_03_controller_dies_at_each_point_of_start(new_cluster: New) -> None:
    storm = run_storm(new_cluster(1, start=False), (*START, *at_passes(COMMIT[2:], 2, 3)))
    storm.check_ids()
    storm.check_runs()


def test_scenario_04_controller_dies_at_each_point_of_completion(new_cluster: New) -> None:
    storm = run_storm(new_cluster(1, start=False), (*END, *CANCEL, *at_passes(COMMIT[2:], 4)), with_cancel=True)
    storm.check_ids()
    storm.check_runs()
    storm.check_spools()


@pytest.mark.slow
def test_every_pass_of_every_commit_point(new_cluster: New) -> None:
    storm = run_storm(new_cluster(2, start=False), at_passes(COMMIT, *range(1, 9)), with_cancel=True)
    storm.check_ids()
    storm.check_runs()
    storm.check_spools()


#: Where the supervisor of the step dies with the job in its hands: the job fails, and says why.
SUPERVISOR_LOST = ("stepd.claimed", "stepd.forked", "stepd.began", "stepd.ended")


@pytest.mark.parametrize("half", [0, 1])
def test_scenario_07_node_daemon_dies_at_each_point_of_launch(new_cluster: New, half: int) -> None:
    """noded, its launcher or a step's supervisor dies: the job runs once, or is launched again if it has never run.

    Only a supervisor that dies with the job in its hands makes the job fail.
    """
    points = tuple(NODE_POINTS)[half::2]
    cluster = new_cluster(1, ClusterConf(kill_wait_s=1), start=False)
    cluster.start_controller()
    log = cluster.work / "runs.log"
    script = cluster.script("log.sh", LOGGING_SCRIPT)
    died: dict[str, int] = {}
    for point in points:
        daemon = cluster.start_node("n1", PENSTOCK_CRASH_AT=point)
        # Some points strike before the node has registered; the job waits for the next daemon then.
        cluster.wait(lambda: not daemon.runs() or in_contact(cluster.node("n1")), f"n1 registers or dies at {point}")
        job_id = cluster.sbatch("--no-requeue", "-J", point, "-o", "/dev/null", str(script), str(log))
        cluster.wait(
            lambda: not daemon.runs() or cluster.job(job_id).state in ENDED or cluster.job(job_id).attempt,
            f"the node daemon dies at {point}, or its supervisor has",
            show=lambda: shown(cluster.job(job_id)),
        )
        if daemon.runs():
            cluster.kill("n1")
        died[point] = job_id
        cluster.start_node("n1")
        cluster.wait_nodes("n1")
        cluster.wait_ends(job_id)
        cluster.kill("n1")
    begins, ends = read_log(log)
    begun, ended = Counter(x.job_id for x in begins), Counter(x.job_id for x in ends)
    for point, job_id in died.items():
        job = cluster.job(job_id)
        where = f"{point}: {shown(job)}, {begun[job_id]} begun, {ended[job_id]} ended"
        assert begun[job_id] <= 1 and ended[job_id] <= begun[job_id], where
        assert job.state in (("COMPLETED", "FAILED") if point in SUPERVISOR_LOST else ("COMPLETED",)), where
        assert (job.state == "COMPLETED") <= (ended[job_id] == 1), where
        attempts = cluster.records(job_id)
        assert [r.state for r in attempts] == [*["REQUEUED"] * job.attempt, job.state], where
