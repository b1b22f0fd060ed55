"""Reservations with real processes: made, used, in the way, ended; and there again after the controller's death."""

import getpass
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster, shown

HOLD_ON = "while [ ! -e {gate} ]; do sleep 0.05; done"


def create(cluster: LiveCluster, name: str, *words: str) -> None:
    made = cluster.run("scontrol", "create", f"reservationname={name}", f"users={getpass.getuser()}", *words)
    assert made.ok().out == f"Reservation created: {name}\n"


def test_a_job_in_it_one_around_it_and_one_that_would_cross_it(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(2, ClusterConf(cpus=2))
    create(cluster, "soon", "starttime=now+20minutes", "duration=60", "nodes=n1")
    create(cluster, "now", "starttime=now", "duration=30", "nodes=n2", "flags=MAINT")

    inside = cluster.sbatch(
        "--reservation=now", "-t", "10", "-o", "in.txt", "--wrap", "echo $SLURM_JOB_RESERVATION $SLURMD_NODENAME"
    )
    cluster.wait_state(inside, "COMPLETED")
    assert (cluster.work / "in.txt").read_text() == "now n2\n"
    around = cluster.sbatch("-t", "10", "-o", "/dev/null", "--wrap", HOLD_ON.format(gate="gate"))
    cluster.wait_state(around, "RUNNING")
    assert cluster.job(around).node_list == "n1"
    crossing = cluster.sbatch("-t", "60", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(
        lambda: cluster.job(crossing).reason == "Reservation", "it waits", show=lambda: shown(cluster.job(crossing))
    )

    assert cluster.run("sinfo", "-hN", "-o", "%N %t %i").ok().out == "n1 mix \nn2 maint now\n"
    assert "State=IDLE+MAINTENANCE+RESERVED" in cluster.run("scontrol", "show", "node", "n2").ok().out
    table = cluster.run("sinfo", "-hT").ok().out.splitlines()
    assert [line.split()[:2] + line.split()[-2:] for line in table] == [
        ["soon", "INACTIVE", "01:00:00", "n1"],
        ["now", "ACTIVE", "00:30:00", "n2"],
    ]
    busy = cluster.run("scontrol", "create", "reservation", "starttime=now", "duration=5", "nodes=n1", "users=root")
    assert busy.status == 1 and busy.err.startswith("Error creating the reservation: Requested nodes are busy")

    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait_state(around, "RUNNING")
    assert [line.split()[0] for line in cluster.run("sinfo", "-hT").ok().out.splitlines()] == ["soon", "now"]
    assert cluster.job(crossing).state == "PENDING"
    assert cluster.run("scontrol", "delete", "reservationname=soon").ok().out == ""
    cluster.run("scontrol", "delete", "reservation", "now").ok()
    cluster.wait_state(crossing, "COMPLETED")
    (cluster.work / "gate").touch()
    cluster.wait_state(around, "COMPLETED")
    assert cluster.run("sinfo", "-T").ok().out == "No reservations in the system\n"
    refused = cluster.run("sbatch", "--reservation=soon", "--wrap", "true")
    assert refused.status == 1
    assert refused.err == "sbatch: error: Batch job submission failed: Requested reservation is invalid\nsbatch: soon\n"
