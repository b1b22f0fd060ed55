"""docs/database.md's restore procedure at several ages of the backup, with real daemons (issue 14, 16 and 21)."""

import shutil
import signal
from collections.abc import Callable

import pytest
from livecluster import CTLD, LiveCluster, in_contact, shown

from ctld.runtime import exits

New = Callable[..., LiveCluster]
GATED = "echo run $SLURM_JOB_ID.$SLURM_RESTART_COUNT >> {log}; while [ ! -e {gate} ]; do sleep 0.05; done; exit 7"


class Site:
    """A cluster, a backup of it, and a life that goes on after it."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.gate, self.log = cluster.work / "gate", cluster.work / "runs"
        self.state = cluster.home / "ctld"
        self.copy = cluster.home / "backup.db"

    def submit(self, *words: str) -> int:
        script = GATED.format(log=self.log, gate=self.gate)
        return self.cluster.sbatch("-o", "/dev/null", *words, "--wrap", script)

    def backup(self) -> None:
        """With PENSTOCK_HOME or PENSTOCK_CLUSTER alone, as the other commands find their cluster."""
        self.cluster.run("penstock", "db", "backup", str(self.copy)).ok()

    def stop(self) -> None:
        self.cluster.kill(CTLD, number=signal.SIGTERM)
        self.cluster.forget_client()

    def live_on(self, times: int = 2) -> None:
        """More leaderships: nodes see their epochs."""
        for _ in range(times):
            self.stop()
            self.cluster.start_controller()
            self.cluster.wait_nodes()

    def restore(self, with_witness: bool = True, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.stop()
        meanwhile()
        for name in ("penstock.db", "penstock.db-wal", "penstock.db-shm"):
            (self.state / name).unlink(missing_ok=True)
        shutil.copy(self.copy, self.state / "penstock.db")
        if with_witness:
            daemon = self.cluster.start_controller(wait=False)
            self.cluster.wait(lambda: not daemon.runs(), "the older database is refused")
            assert daemon.process.returncode == exits.OLDER
            assert "is older than what was acknowledged" in self.cluster.logs()
            self.cluster.start_controller("--accept-loss")
        else:
            (self.state / "witness").unlink()
            self.cluster.start_controller()
        self.cluster.wait_nodes()

    def works(self, above: int) -> None:
        """All nodes take jobs, under new ids, and nothing is left of old ones."""
        self.cluster.wait(
            lambda: all(in_contact(node := self.cluster.node(n)) and "COMPLETING" not in node.flags
                        for n in self.cluster.node_names),
            "the nodes are there and have ended what is not known", show=lambda: self.cluster.logs(),
        )  # fmt: skip
        for name in self.cluster.node_names:
            job_id = self.cluster.sbatch("-w", name, "-o", "/dev/null", "--wrap", "true")
            assert job_id > above
            self.cluster.wait_state(job_id, "COMPLETED")

    def runs(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def began(self, job_id: int) -> None:
        self.cluster.wait(lambda: any(f"run {job_id}." in line for line in self.runs()), f"job {job_id} has begun")

    def logged(self, *texts: str) -> None:
        """Waits until the daemons' logs, which threads of theirs write, have these texts."""
        self.cluster.wait(lambda: all(text in self.cluster.logs() for text in texts), f"the logs say {texts}")


@pytest.fixture
def site(new_cluster: New) -> Site:
    return Site(new_cluster(2))


@pytest.mark.parametrize("with_witness", [True, False])
def test_16_from_before_a_job_was_submitted(site: Site, with_witness: bool) -> None:
    """The job is ended where it runs; its id is not given out again."""
    site.backup()
    jobs = [site.submit() for _ in range(3)]
    for job_id in jobs:
        site.began(job_id)
    site.live_on()
    site.restore(with_witness)
    site.works(above=max(jobs))
    assert not {job.job_id for job in site.cluster.jobs()} & set(jobs)
    assert len(site.runs()) == 3
    site.logged("that the database does not know: ended there")
    if not with_witness:
        site.logged("has seen epoch", "job ids continue at")


@pytest.mark.parametrize("requeue", [True, False])
def test_16_from_while_it_was_pending(site: Site, requeue: bool) -> None:
    """A run that the database does not know is ended; the job runs again, or has failed where it may not."""
    job_id = site.submit("--hold", "--requeue" if requeue else "--no-requeue")
    site.backup()
    site.cluster.run("scontrol", "release", str(job_id)).ok()
    site.began(job_id)
    site.live_on()
    site.restore()
    site.cluster.run("scontrol", "release", str(job_id))
    if requeue:
        site.gate.touch()
        job = site.cluster.wait_state(job_id, "FAILED")
        assert (job.attempt, job.exit.code) == (1, 7), shown(job)
    else:
        job = site.cluster.wait_state(job_id, "FAILED")
        assert "after the last state in the database" in job.reason_detail, shown(job)
        assert len(site.runs()) == 1
    site.works(above=job_id)


def test_16_from_while_it_was_pending_and_its_end_is_still_to_be_told(site: Site) -> None:
    """The node's report of the end is taken: the job does not run a second time."""
    job_id = site.submit("--hold")
    site.backup()
    site.cluster.run("scontrol", "release", str(job_id)).ok()
    site.began(job_id)
    site.live_on()
    site.restore(meanwhile=site.gate.touch)
    job = site.cluster.wait_state(job_id, "FAILED")
    assert (job.attempt, job.exit.code) == (0, 7), shown(job)
    assert len(site.runs()) == 1
    site.works(above=job_id)


def test_16_from_while_it_ran(site: Site) -> None:
    """It goes on, and its end is its own."""
    job_id = site.submit()
    site.began(job_id)
    site.backup()
    later = site.submit()
    site.began(later)
    site.live_on()
    site.restore()
    site.gate.touch()
    job = site.cluster.wait_state(job_id, "FAILED")
    assert (job.attempt, job.exit.code) == (0, 7), shown(job)
    site.works(above=later)
    assert len(site.runs()) == 2


def test_16_from_while_it_ran_and_it_has_ended_since(site: Site) -> None:
    """How it ended is lost with the database: back to the queue, as after the loss of a node."""
    job_id = site.submit()
    site.began(job_id)
    site.backup()
    site.gate.touch()
    site.cluster.wait_state(job_id, "FAILED")
    site.live_on()
    site.restore()
    job = site.cluster.wait_state(job_id, "FAILED")
    assert (job.attempt, job.exit.code) == (1, 7), shown(job)
    site.works(above=job_id)


def test_16_from_after_it_had_ended(site: Site) -> None:
    job_id = site.submit()
    site.gate.touch()
    site.cluster.wait_state(job_id, "FAILED")
    site.backup()
    later = site.submit()
    site.cluster.wait_state(later, "FAILED")
    site.live_on()
    site.restore()
    site.works(above=later)
    assert [record.state for record in site.cluster.records(job_id)] == ["FAILED"]
    assert site.cluster.records(later) == []


def test_16_a_restored_folder_with_its_witness(site: Site) -> None:
    """As a snapshot of the machine: the witness knows no more than the database, but the nodes do."""
    requeued, held = (site.submit("--begin=now+1hour", word) for word in ("--requeue", "--no-requeue"))
    site.stop()
    folder = site.cluster.home / "copy"
    shutil.copytree(site.state, folder, ignore=shutil.ignore_patterns("*.sock"), symlinks=True)
    site.cluster.start_controller()
    site.cluster.wait_nodes()
    for job_id in (requeued, held):
        site.cluster.run("scontrol", "update", f"JobId={job_id}", "StartTime=now").ok()
        site.began(job_id)
    site.stop()
    shutil.rmtree(site.state)
    shutil.copytree(folder, site.state, symlinks=True)
    site.cluster.start_controller()
    site.cluster.wait_nodes()
    site.works(above=held)
    site.logged("before it registered here", "nothing starts before all nodes have reported")
    assert "database is too old:" in site.cluster.run("sinfo", "-R").ok().out
    site.gate.touch()
    for job_id in (requeued, held):
        site.cluster.run("scontrol", "update", f"JobId={job_id}", "StartTime=now").ok()
    job = site.cluster.wait_state(requeued, "FAILED")
    assert (job.attempt, job.exit.code) == (1, 7), shown(job)
    job = next(job for job in site.cluster.jobs() if job.job_id == held)
    assert (job.state, job.attempt) == ("PENDING", 1), shown(job)
    site.cluster.run("scontrol", "release", str(held)).ok()
    site.cluster.wait_state(held, "FAILED")
    site.live_on(1)  # nothing more to say
    assert "too old" not in site.cluster.run("sinfo", "-R").ok().out
