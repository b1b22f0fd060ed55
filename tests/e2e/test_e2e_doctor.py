"""Real programs of several processes that stop, fall behind or work, and what `penstock doctor` says of them."""

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path

# Any: a fixture that makes clusters
from typing import Any

from livecluster import LAUNCHERS, ClusterConf, LiveCluster
from patience import END_S

#: Tasks that meet at a barrier, over a socket as gloo has it, between two pieces of work; the last one leaves them at round 3.
PROGRAM = """\
import os, signal, socket, sys, time
def compute(s):  # a quarter of the time, which is enough to be seen
    end = time.process_time() + s
    while time.process_time() < end:
        pass
    time.sleep(3 * s)
rank, path, way = int(os.environ["SLURM_PROCID"]), sys.argv[1], sys.argv[2]
if rank == 0:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".new")
    server.listen()
    os.rename(path + ".new", path)
    peer = server.accept()[0]
else:
    peer = socket.socket(socket.AF_UNIX)
    while not os.path.exists(path):
        time.sleep(0.05)
    peer.connect(path)
peer.setblocking(way != "spin")
for number in range(10**9):
    compute(0.05)
    if rank and number == 3 and way != "work":
        if way == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(60)
    print("round", number, flush=True)
    peer.sendall(b"x")
    while True:
        try:
            peer.recv(1)
            break
        except BlockingIOError:
            compute(0.01)  # as NCCL waits
"""


def started(cluster: LiveCluster, way: str) -> int:
    """Submits such a program."""
    program = cluster.script("meet.py", PROGRAM)
    line = f"srun --overlap -n2 --acctg-freq=task=1 {sys.executable} {program} {cluster.work}/{way}.socket {way}"
    return cluster.sbatch("-n2", "--acctg-freq=task=1", "-o", "/dev/null", "--wrap", line)


def test_a_task_that_stops_or_falls_behind_is_named_and_a_healthy_step_is_not(new_cluster: Any) -> None:
    cluster: LiveCluster = new_cluster(1, ClusterConf(more=("PenstockHangAfter=6", "JobAcctGatherFrequency=1")))
    jobs = {way: started(cluster, way) for way in ("stop", "spin", "work")}
    log = cluster.home / "log" / "n1.log"
    stopped, behind, works = (jobs[way] for way in ("stop", "spin", "work"))
    lines = [f"step {stopped}.0.0 may hang: task 1: stopped", f"step {behind}.0.0 may hang: task 1: no CPU used"]
    cluster.wait(lambda: all(line in log.read_text() for line in lines), "both steps are suspected")
    assert f"step {works}.0" not in log.read_text()
    cluster.wait(lambda: "may hang" in story(cluster, stopped), "the event is in the job's story")
    first = cluster.run("penstock", "doctor", str(stopped)).ok().out
    assert f"Step {stopped}.0: 2 tasks on n1: suspected\n  stopped: task 1: stopped by a signal for " in first
    assert f"Step {stopped}.batch: 1 task on n1: nothing is suspected" in first
    (row,) = [line.split() for line in first.splitlines() if line.startswith("  1 ")]
    assert row[1] == "n1" and row[3] == "T"
    document = json.loads(cluster.run("penstock", "doctor", f"{behind}.0", "--json").ok().out)
    (step,) = document["steps"]
    assert [(one["kind"], one["ranks"]) for one in step["suspicions"]] == [("behind", [1])]
    healthy = cluster.run("penstock", "doctor", f"{works}.0").ok().out
    assert healthy == f"Step {works}.0: 2 tasks on n1: nothing is suspected\n"
    cluster.run("scancel", str(behind), str(works)).ok()  # they keep processors busy
    stacks_are_taken_as_the_jobs_user(cluster, stopped, row[2])
    if os.geteuid() == 0:
        stranger = cluster.run("penstock", "doctor", str(stopped), uid=65534)
        assert stranger.status == 1 and "suspected" not in stranger.out
    os.kill(int(row[2]), signal.SIGCONT)  # its sleep is no more than being behind
    cluster.wait(lambda: story(cluster, stopped).count("may hang") == 2, "the step hangs in another way")
    cluster.kill("n1")
    cluster.start_node("n1")  # a later daemon is told what is suspected, and what changes then
    # the one before may have been killed before it knew that its last report had arrived, which is then repeated
    cluster.wait(lambda: story(cluster, stopped).count("may hang") >= 3, "the later daemon says so again")
    os.kill(int(row[2]), signal.SIGSTOP)
    again = f"step {stopped}.0.0 may hang: task 1: stopped"
    cluster.wait(lambda: log.read_text().count(again) == 2, "the later daemon is told of a change")
    a_step_that_goes_on_to_hang_is_sent_the_sites_signal(cluster, log)


def a_step_that_goes_on_to_hang_is_sent_the_sites_signal(cluster: LiveCluster, log: Path) -> None:
    text = cluster.slurm_conf.read_text()
    cluster.slurm_conf.write_text(f"{text}PenstockHangAction=soon\n")
    assert "'soon' is no signal" in cluster.run("scontrol", "reconfigure").err
    cluster.slurm_conf.write_text(f"{text}PenstockHangAction=KILL@2\n")
    cluster.run("scontrol", "reconfigure").ok()
    program = cluster.script("meet.py", PROGRAM)
    words = "srun", "-n2", "--acctg-freq=task=1", sys.executable, program, f"{cluster.work}/kill.socket", "stop"
    done = cluster.run(*map(str, words))
    assert done.status == 137
    assert re.search(r"error: \*\*\* STEP \d+\.0\.0 MAY HANG: task 1: stopped by .*; SENT SIGKILL \*\*\*", done.err)
    job = int(re.search(r"STEP (\d+)\.", done.err)[1])
    said = "step 0 was sent SIGKILL (PenstockHangAction): task 1: stopped by a signal for "
    assert said in story(cluster, job)
    cluster.wait(lambda: f"step {job}.0.0 was sent SIGKILL" in log.read_text(), "the log says so")
    records = [json.loads(line) for line in cluster.run("penstock", "audit", "show", "--json").ok().out.splitlines()]
    [one] = [record for record in records if record["action"] == "signal hanging step"]
    assert one["objects"] == [f"step {job}.0 of {pwd.getpwuid(os.geteuid()).pw_name}"]
    assert (one["after"], one["auth"], one["from"]) == ({"signal": "KILL"}, "policy", "n1")


def story(cluster: LiveCluster, job_id: int) -> str:
    return cluster.run("scontrol", "show", "story", str(job_id)).ok().out


def stacks_are_taken_as_the_jobs_user(cluster: LiveCluster, job_id: int, pid: str) -> None:
    folder = cluster.work / "bin"
    folder.mkdir()
    spy = folder / "py-spy"
    gate = folder / "gate"  # the table is there before the stacks are
    wait = f"while ! test -e {gate}; do sleep 0.05; done"
    spy.write_text(f'#!/bin/sh\n{wait}\necho "$SLURM_JOB_ID $(id -u) $*"\necho "at $4" | tr 0-9 a-j\n')
    spy.chmod(0o755)
    env = {**os.environ, **cluster.environment(), "PATH": f"{folder}:{os.environ['PATH']}"}
    argv = [str(LAUNCHERS / "penstock"), "doctor", f"{job_id}.0", "--stacks"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as doctor:
        assert doctor.stdout is not None
        table = [doctor.stdout.readline() for _ in range(5)]
        assert table[0] == f"Step {job_id}.0: 2 tasks on n1: suspected\n" and table[4].split()[2] == pid
        gate.touch()
        rest = doctor.stdout.read().splitlines()
        assert doctor.wait(END_S) == 0
    assert f"    {job_id} {os.getuid()} dump --nonblocking --pid {pid}" in rest
