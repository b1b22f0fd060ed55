"""srun on real clusters: its own allocation, steps in a job, streams over TLS from several node daemons, what breaks."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launched import Launched, build
from livecluster import Done, LiveCluster, command, in_contact
from patience import ANSWER_S

from cli.steps.console import Console, Sink
from cli.steps.ending import EndingRules
from cli.steps.session import Session
from penstock.v1 import steps_pb2 as s
from penstock.values.hostlist import expand
from penstock.values.requestkey import new_request_key

NOBODY = 65534
#: In scripts: the command as it is run from this tree.
SRUN = f"{sys.executable} -P -m cli.srun"


def srun(cluster: LiveCluster, *words: str, stdin: bytes = b"", **env: str) -> Done:
    return cluster.run("srun", *words, stdin=stdin, env=env)


def start(cluster: LiveCluster, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("srun", *words), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cluster.work,
        env=cluster.environment(),
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=ANSWER_S)
    return process.returncode, out.decode(), err.decode()


def steps(cluster: LiveCluster, job_id: int) -> list[s.StepInfo]:
    return list(cluster.call("ListSteps", s.ListStepsRequest(ids=[str(job_id)])).steps)


def last_job(cluster: LiveCluster) -> int:
    return max(job.job_id for job in cluster.jobs())


@pytest.fixture
def allocation(cluster: LiveCluster) -> int:
    """A job of two nodes with two CPUs each that does nothing by itself."""
    job_id = cluster.sbatch("-N2", "--ntasks-per-node=2", "--mem=500", "--wrap", "sleep 600")
    cluster.wait_state(job_id, "RUNNING")
    return job_id


def inside(cluster: LiveCluster, job_id: int, *words: str, stdin: bytes = b"", **env: str) -> Done:
    return srun(cluster, f"--jobid={job_id}", *words, stdin=stdin, **env)


# ---- on its own ----------------------------------------------------------------------------------------------------


def test_on_its_own_it_allocates_runs_and_releases(cluster: LiveCluster) -> None:
    done = srun(cluster, "-N2", "-n4", "--mem=100", "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME").ok()
    lines = sorted(done.out.splitlines())
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3"]
    assert len({line.split()[1] for line in lines}) == 2
    job_id = last_job(cluster)
    job = cluster.wait_state(job_id, "COMPLETED")
    assert (job.exit.code, job.request.name) == (0, "sh")
    states = cluster.run("sacct", "-nP", "-j", str(job_id), "-o", "jobid,state,exitcode").ok().out.splitlines()
    assert states == [f"{job_id}|COMPLETED|0:0", f"{job_id}.0|COMPLETED|0:0"]


def test_where_each_task_runs_as_debuggers_read_it(cluster: LiveCluster) -> None:
    script = "echo $SLURM_PROCID $SLURMD_NODENAME $$"
    done = srun(cluster, "-N2", "-n3", "--mem=100", "--debugger-test", "sh", "-c", script)
    told = [re.fullmatch(r"srun: task:(\d), host:(\w+), pid:(\d+)", line) for line in done.err.splitlines()]
    assert done.status == 0 and len(told) == 3
    assert [" ".join(found.groups()) for found in told if found] == sorted(done.out.splitlines())


def test_its_exit_code_becomes_the_jobs(cluster: LiveCluster) -> None:
    done = srun(cluster, "-n2", "--mem=100", "sh", "-c", "exit $((SLURM_PROCID * 5))")
    node = cluster.wait_state(last_job(cluster), "FAILED").node_list
    assert (done.status, done.out) == (5, "")
    assert done.err == f"srun: error: {node}: task 1: Exited with exit code 5\n"
    assert cluster.job(last_job(cluster)).exit.code == 5
    states = cluster.run("sacct", "-nP", "-j", str(last_job(cluster)), "-o", "state,exitcode").ok().out.splitlines()
    assert states == ["FAILED|5:0", "FAILED|5:0"]


def test_a_signal_counts_128_and_its_number(cluster: LiveCluster) -> None:
    done = srun(cluster, "-n1", "--mem=100", "sh", "-c", "kill -TERM $$")
    assert done.status == 143
    assert re.fullmatch(r"srun: error: n\d: task 0: Terminated\n", done.err)


def test_what_cannot_be_started_is_told(cluster: LiveCluster) -> None:
    done = srun(cluster, "-n1", "--mem=100", "/nonexistent/program")
    assert done.status == 2
    assert "/nonexistent/program: No such file or directory" in done.err
    assert re.search(r"srun: error: n\d: task 0: Exited with exit code 2\n", done.err)


def test_nodes_that_are_busy_refuse_immediately(cluster: LiveCluster) -> None:
    blocker = cluster.sbatch("-N4", "--exclusive", "--wrap", "sleep 600")
    cluster.wait_state(blocker, "RUNNING")
    done = srun(cluster, "-I", "-n1", "true", SLURM_EXIT_IMMEDIATE="44")
    assert (done.status, done.err) == (
        44,
        "srun: error: Unable to allocate resources: Requested nodes are busy\n",
    )


def test_it_waits_for_its_turn(cluster: LiveCluster) -> None:
    blocker = cluster.sbatch("-N4", "--exclusive", "--wrap", "sleep 600")
    cluster.wait_state(blocker, "RUNNING")
    process = start(cluster, "-n1", "--mem=100", "echo", "there")
    assert process.stderr.readline() == b"srun: job %d queued and waiting for resources\n" % (blocker + 1)
    cluster.run("scancel", str(blocker)).ok()
    assert finish(process) == (0, "there\n", f"srun: job {blocker + 1} has been allocated resources\n")


def test_ctrl_c_while_it_waits_leaves_no_job(cluster: LiveCluster) -> None:
    blocker = cluster.sbatch("-N4", "--exclusive", "--wrap", "sleep 600")
    cluster.wait_state(blocker, "RUNNING")
    process = start(cluster, "-n1", "true")
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    assert status == 1
    assert err == f"srun: Job allocation {blocker + 1} has been revoked\nsrun: Force Terminated JobId={blocker + 1}\n"
    cluster.wait_state(blocker + 1, "CANCELLED")


# ---- in a job ------------------------------------------------------------------------------------------------------


def test_tasks_fan_out_over_nodes(cluster: LiveCluster, allocation: int) -> None:
    done = inside(cluster, allocation, "-l", "-n4", "sh", "-c", "echo $SLURM_NODEID $SLURM_LOCALID $SLURM_STEP_ID").ok()
    assert sorted(done.out.splitlines()) == ["0: 0 0 0", "1: 0 1 0", "2: 1 0 0", "3: 1 1 0"]
    assert inside(cluster, allocation, "-N1", "-n1", "-r1", "sh", "-c", "echo $SLURM_STEP_ID").ok().out == "1\n"


def test_srun_in_a_batch_script(cluster: LiveCluster) -> None:
    text = f"#!/bin/sh\n{SRUN} -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS'\n{SRUN} -n1 -N1 sh -c 'exit 7'\necho $?\n"
    job_id = cluster.sbatch("-N2", "--ntasks-per-node=2", str(cluster.script("steps.sh", text)))
    cluster.wait_state(job_id, "COMPLETED")
    lines = (cluster.work / f"slurm-{job_id}.out").read_text().splitlines()
    assert sorted(lines[:4]) == [f"{n}: {n} of 4" for n in range(4)]
    assert lines[-1] == "7"


def test_input_goes_to_all_tasks_or_one(cluster: LiveCluster, allocation: int) -> None:
    count = ["sh", "-c", "echo $SLURM_PROCID $(wc -c)"]
    text = b"x" * 1_000_000
    assert sorted(inside(cluster, allocation, "-n4", *count, stdin=text).ok().out.splitlines()) == [
        f"{n} 1000000" for n in range(4)
    ]
    wanted = ["0 0", "1 0", "2 0", "3 1000000"]
    assert sorted(inside(cluster, allocation, "-n4", "-i3", *count, stdin=text).ok().out.splitlines()) == wanted
    assert sorted(inside(cluster, allocation, "-n2", "-inone", *count, stdin=text).ok().out.splitlines()) == wanted[:2]


def test_output_comes_whole_and_in_order(cluster: LiveCluster, allocation: int) -> None:
    done = inside(cluster, allocation, "-n2", "-l", "seq", "200000").ok()
    for task in range(2):
        mine = [line[3:] for line in done.out.splitlines() if line.startswith(f"{task}: ")]
        assert mine == [str(n) for n in range(1, 200_001)]


def test_files_here_and_on_the_nodes(cluster: LiveCluster, allocation: int) -> None:
    both = ["sh", "-c", "echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2"]
    inside(cluster, allocation, "-n2", "-o", "all-%J", *both).ok()
    assert sorted((cluster.work / f"all-{allocation}.0").read_text().splitlines()) == [
        "err 0",
        "err 1",
        "out 0",
        "out 1",
    ]
    inside(cluster, allocation, "-n2", "-o", "o-%s-%t", "-e", "e-%2t", *both).ok()
    assert [(cluster.work / f"o-1-{t}").read_text() for t in (0, 1)] == ["out 0\n", "out 1\n"]
    assert [(cluster.work / f"e-{t}").read_text() for t in ("00", "01")] == ["err 0\n", "err 1\n"]
    assert inside(cluster, allocation, "-n2", "-o1", "-enone", *both).ok().out == "out 1\n"


def test_one_file_for_both_outputs_of_each_task(cluster: LiveCluster, allocation: int) -> None:
    inside(cluster, allocation, "-n2", "-o", "both-%t", "sh", "-c", "echo a; echo b >&2; echo c").ok()
    assert [(cluster.work / f"both-{t}").read_text() for t in (0, 1)] == ["a\nb\nc\n"] * 2


def test_several_steps_at_once_share_the_job(cluster: LiveCluster, allocation: int) -> None:
    """Four CPUs: four steps of one run together, the fifth waits."""
    flag = cluster.work / f"go-{allocation}"
    wait = ["sh", "-c", f"echo up; while [ ! -e {flag} ]; do sleep 0.05; done"]
    running = [start(cluster, f"--jobid={allocation}", "--exact", "-n1", "-N1", "--mem=10", *wait) for _ in range(4)]
    for process in running:
        assert process.stdout.readline() == b"up\n"
    late = start(cluster, f"--jobid={allocation}", "--exact", "-n1", "-N1", "--mem=10", "echo", "late")
    words = b"srun: Job %d step creation temporarily disabled, retrying (Requested nodes are busy)\n" % allocation
    assert late.stderr.readline() == words
    assert inside(cluster, allocation, "--overlap", "-n1", "-N1", "echo", "beside").ok().out == "beside\n"
    flag.touch()
    assert [finish(process)[0] for process in running] == [0] * 4
    status, out, err = finish(late)
    assert (status, out) == (0, "late\n")
    assert re.fullmatch(rf"srun: Step created for StepId={allocation}\.\d+\n", err)


def test_programs_by_rank(cluster: LiveCluster, allocation: int) -> None:
    (cluster.work / "programs").write_text("0 echo 'the first' %t\n1-2 echo rank %t place %o\n* echo rest\n")
    done = inside(cluster, allocation, "-l", "-n4", "--multi-prog", "programs").ok()
    assert sorted(done.out.splitlines()) == ["0: the first 0", "1: rank 1 place 0", "2: rank 2 place 1", "3: rest"]


def test_the_environment_is_the_clients(cluster: LiveCluster, allocation: int) -> None:
    ask = ["sh", "-c", "echo $ONE:$TWO"]
    assert inside(cluster, allocation, "-n1", "-N1", *ask, ONE="1", TWO="2").ok().out == "1:2\n"
    assert inside(cluster, allocation, "-n1", "-N1", "--export=ONE", *ask, ONE="1", TWO="2").ok().out == "1:\n"
    assert inside(cluster, allocation, "-n1", "-N1", "--export=NONE", *ask, ONE="1").ok().out == ":\n"


def test_a_program_is_copied_to_the_nodes(cluster: LiveCluster, allocation: int) -> None:
    program = cluster.script("mine.sh", "#!/bin/sh\necho $0\n")
    target = cluster.work / "copied"
    done = inside(cluster, allocation, "-n2", "-N2", f"--bcast={target}", str(program)).ok()
    assert done.out == f"{target}\n" * 2
    assert target.read_text() == program.read_text()


# ---- signals and ends ----------------------------------------------------------------------------------------------


def ready(process: subprocess.Popen[bytes], lines: int) -> None:
    for _ in range(lines):
        assert process.stdout.readline() == b"up\n"


def test_ctrl_c_once_and_twice(cluster: LiveCluster, allocation: int) -> None:
    process = start(cluster, f"--jobid={allocation}", "-n2", "-N2", "sh", "-c", "echo up; exec sleep 600")
    ready(process, 2)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == b"srun: interrupt (one more within 1 sec to abort)\n"
    assert process.stderr.readline() == b"srun: StepId=%d.0 tasks 0-1: running\n" % allocation
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    assert status == 130
    assert err.startswith(f"srun: sending Ctrl-C to StepId={allocation}.0\nsrun: Job step aborted: ")
    assert err.count("task 0: Interrupt\n") == err.count("task 1: Interrupt\n") == 1
    assert cluster.job(allocation).state == "RUNNING"


def test_signals_go_to_the_tasks(cluster: LiveCluster, allocation: int) -> None:
    script = "trap 'echo usr1; exit 3' USR1; echo up; while :; do sleep 0.05; done"
    process = start(cluster, f"--jobid={allocation}", "-n2", "-N2", "sh", "-c", script)
    ready(process, 2)
    process.send_signal(signal.SIGUSR1)
    status, out, _ = finish(process)
    assert (status, out) == (3, "usr1\nusr1\n")


def test_the_first_failure_ends_the_step_if_asked(cluster: LiveCluster, allocation: int) -> None:
    script = "[ $SLURM_PROCID = 0 ] || exec sleep 600; exit 4"
    done = inside(cluster, allocation, "-K", "-n2", "-N2", "sh", "-c", script)
    assert done.status in (143, 137)
    assert "task 0: Exited with exit code 4\n" in done.err
    assert f"srun: Terminating StepId={allocation}.0\n" in done.err


def test_a_cancelled_step_ends_and_the_job_goes_on(cluster: LiveCluster, allocation: int) -> None:
    process = start(cluster, f"--jobid={allocation}", "-n2", "-N2", "sh", "-c", "echo up; exec sleep 600")
    ready(process, 2)
    cluster.run("scancel", f"{allocation}.0").ok()
    status, _, err = finish(process)
    assert status == 143
    assert "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n" in err
    assert f"*** STEP {allocation}.0 ON " in err
    assert cluster.job(allocation).state == "RUNNING"


def test_a_terminal(cluster: LiveCluster, allocation: int) -> None:
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        command("srun", f"--jobid={allocation}", "-n1", "-N1", "--pty", "sh", "-c", "stty size; tty; read x; echo got $x"),
        stdin=child, stdout=child, stderr=child, cwd=cluster.work, env=cluster.environment(),
    )  # fmt: skip
    os.close(child)
    seen = b""
    sent = False
    while True:
        try:
            data = os.read(parent, 1000)
        except OSError:
            break
        seen += data
        if b"/dev/pts/" in seen and not sent:
            sent = True
            os.write(parent, b"word\r")
    assert process.wait(ANSWER_S) == 0
    assert b"24 80\r\n" in seen and b"got word\r\n" in seen
    os.close(parent)


def test_output_of_a_step_that_ended_before_anybody_came(cluster: LiveCluster, allocation: int) -> None:
    """Its end is committed and its folder is gone; stepd keeps its output for clients with the key."""
    request = s.CreateStepRequest(job_id=allocation, step_key=new_request_key(0, os.urandom(16)))
    request.step.MergeFrom(s.StepSpec(ntasks=2, work_dir=b"/"))
    request.spec.argv.extend((b"/bin/echo", b"late"))
    created = cluster.call("CreateStep", request)
    wait = s.AwaitStepRequest(job_id=allocation, step_id=created.step_id, attempt=created.attempt, wait_s=20)
    assert cluster.call("AwaitStep", wait, timeout_s=ANSWER_S).state == "COMPLETED"
    names = list(created.plan.nodes)
    mine = f"{allocation}.0.{created.step_id}"
    cluster.wait(lambda: all(mine not in cluster.held_steps(node) for node in names), "the nodes have forgotten it")
    reader, writer = os.pipe()
    sink = Sink(writer)
    session = Session(cluster.file, created, Console(sink, sink, own_err=sink), EndingRules())
    assert session.run() == 0
    os.close(writer)
    with open(reader) as file:
        heard = file.read()
    assert heard == "late\nlate\n"


# ---- what breaks ---------------------------------------------------------------------------------------------------


def test_srun_killed_leaves_no_orphan_of_its_own_job(cluster: LiveCluster) -> None:
    """Its output is not read any more; what it was running ends by itself, and with it the job."""
    flag = cluster.work / "orphan-go"
    script = f"echo up; while [ ! -e {flag} ]; do sleep 0.05; done"
    process = start(cluster, "-n1", "--mem=100", "sh", "-c", script)
    ready(process, 1)
    job_id = last_job(cluster)
    process.kill()
    process.wait(ANSWER_S)
    assert cluster.job(job_id).state == "RUNNING"
    flag.touch()
    cluster.wait(lambda: not any(st.state == "RUNNING" for st in steps(cluster, job_id)), "the step has ended")


def test_the_controller_is_killed_and_restarted_while_a_step_runs(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(nodes=2)
    flag = cluster.work / "go"
    script = f"echo up; while [ ! -e {flag} ]; do sleep 0.05; done; echo end"
    process = start(cluster, "-n2", "-N2", "sh", "-c", script)
    ready(process, 2)
    cluster.kill("ctld")
    flag.touch()
    # Both lines: what readline has taken in beyond its line is not there for `finish`.
    assert [process.stdout.readline(), process.stdout.readline()] == [b"end\n", b"end\n"]
    cluster.start_controller()
    assert finish(process) == (0, "", "")
    cluster.wait_state(1, "COMPLETED")


def test_a_node_daemon_is_killed_and_restarted_while_a_step_runs(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(nodes=2)
    flag = cluster.work / "go"
    script = f"echo up; while [ ! -e {flag} ]; do sleep 0.05; done; seq 1000"
    process = start(cluster, "-n2", "-N2", "sh", "-c", script)
    ready(process, 2)
    cluster.kill("n1")
    flag.touch()
    for _ in range(2000):
        assert process.stdout.readline()
    cluster.start_node("n1")
    assert finish(process) == (0, "", "")
    cluster.wait_state(1, "COMPLETED")


def test_a_job_that_is_cancelled_ends_its_steps(cluster: LiveCluster, allocation: int, tmp_path: Path) -> None:
    process = start(cluster, f"--jobid={allocation}", "-n2", "-N2", "sh", "-c", "echo up; exec sleep 600")
    ready(process, 2)
    cluster.run("scancel", str(allocation)).ok()
    status, _, err = finish(process)
    assert status == 143
    assert "CANCELLED AT" in err


@pytest.mark.root
def test_tasks_run_as_the_user_who_asks(cluster: LiveCluster, allocation: int) -> None:
    """Of 'nobody': the tasks, the files that they open, and no step in the job of somebody else."""
    done = cluster.run("srun", "-N2", "--mem=50", "-o", "mine-%t", "sh", "-c", "id -u; id -g; id -G", uid=NOBODY).ok()
    assert done.out == ""
    paths = [cluster.work / f"mine-{t}" for t in (0, 1)]
    assert [path.read_text() for path in paths] == [f"{NOBODY}\n{NOBODY}\n{NOBODY}\n"] * 2
    assert {path.stat().st_uid for path in paths} == {NOBODY}
    refused = cluster.run("srun", f"--jobid={allocation}", "true", uid=NOBODY)
    words = f"srun: error: Unable to create step for job {allocation}: Access/permission denied\n"
    assert (refused.status, refused.err) == (1, words)


def test_no_such_job(cluster: LiveCluster) -> None:
    done = inside(cluster, 999_999, "true")
    assert (done.status, done.err) == (
        1,
        "srun: error: Unable to confirm allocation for job 999999: Invalid job id specified\n"
        "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 999999\n",
    )


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="pstk-s") as folder:
        yield Path(folder)


def test_a_worker_that_has_run_srun_runs_the_next_one_too(cluster: LiveCluster, short_folder: Path) -> None:
    """Its connection to the call socket is kept, and is no file that the call has left open."""
    launched = Launched(short_folder, build(short_folder), cluster.cluster_file)
    try:
        server = launched.warm()
        done = launched.run("srun", "true")
        assert (done.returncode, done.stderr) == (0, b"")
        children = Path(f"/proc/{server}/task/{server}/children")
        first = set(children.read_text().split())
        assert launched.run("srun", "true").returncode == 0
        assert first and first & set(children.read_text().split()) == first
        assert "srun" not in launched.starts()
    finally:
        launched.close()


def test_a_step_created_while_its_node_daemon_is_down(cluster: LiveCluster, allocation: int) -> None:
    name = expand(cluster.job(allocation).node_list)[0]
    cluster.kill(name)
    cluster.wait(lambda: not in_contact(cluster.node(name)), f"{name} is out of contact")
    process = start(cluster, f"--jobid={allocation}", "-N1", "-w", name, "sh", "-c", "echo here")
    cluster.wait(lambda: [step for step in steps(cluster, allocation) if step.step_id == 0], "the step is created")
    cluster.start_node(name)
    assert finish(process) == (0, "here\n", "")
