"""The controller dies when a job is durable and no reply or effect has been sent: what sbatch says, and that trying again is safe."""

import re

from livecluster import CTLD, LiveCluster

from cli.base.requestkey import new_key

CRASHED = 137
WORDS = ["--hold", "-J", "once", "-o", "/dev/null", "--wrap", "true"]


def test_18_a_job_that_is_queued_is_not_said_to_have_failed():
    with LiveCluster(1) as cluster:
        cluster.kill(CTLD)
        cluster.start_controller(PENSTOCK_CRASH_AT="submit:before-reply")
        done = cluster.run("sbatch", *WORDS)
        assert cluster.wait_death(CTLD) == CRASHED
        cluster.start_controller()
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith("sbatch: error: It is not known whether the job was submitted: ")
        assert "failed" not in done.err
        key = re.search(r"--request-key=([0-9a-f]{32}) ", done.err)[1]
        assert cluster.run("squeue", "-h", "-n", "once", "-o", "%i").ok().out == "1\n"
        for _ in range(2):
            assert cluster.run("sbatch", f"--request-key={key}", *WORDS).ok().out == "Submitted batch job 1\n"
        assert len(cluster.jobs()) == 1


def test_an_allocation_is_taken_over_by_its_key():
    with LiveCluster(1) as cluster:
        words = [f"--request-key={new_key()}", "--no-shell", "-J", "mine"]
        for _ in range(2):
            done = cluster.run("salloc", *words)
            assert done.status == 0 and "salloc: Granted job allocation 1\n" in done.err, done
        assert len(cluster.jobs()) == 1
        cluster.run("scancel", "1").ok()
