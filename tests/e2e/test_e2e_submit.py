"""A user's batch script on real nodes: where it comes from, where its output goes, what it finds in its environment."""

import os
import re
import sys
import time
from pathlib import Path

import pytest
from livecluster import Done, LiveCluster


def words_of(text: str) -> dict[str, str]:
    """The output of `env -0`."""
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def output(cluster: LiveCluster, job_id: int, path: Path | None = None, state: str = "COMPLETED") -> str:
    """What a job wrote, once it has ended."""
    cluster.wait_state(job_id, state)
    return (path or cluster.work / f"slurm-{job_id}.out").read_text(errors="surrogateescape")


def job_ids(cluster: LiveCluster) -> set[int]:
    """The jobs that the controller still has; those older than MinJobAge leave at any time."""
    return {job.job_id for job in cluster.jobs()}


def sacct(cluster: LiveCluster, job_id: int | str, fields: str) -> list[list[str]]:
    """Rows of sacct, steps too."""
    done = cluster.run("sacct", "-nP", "-j", str(job_id), "-o", fields).ok()
    return [line.split("|") for line in done.out.splitlines()]


# ---- where the script comes from -----------------------------------------------------------------------------------


def test_script_file_with_arguments(cluster: LiveCluster) -> None:
    script = cluster.script("args.sh", '#!/bin/sh\nprintf "%s|" "$#" "$@"\n')
    done = cluster.run("sbatch", str(script), "one", "two words", "", "--parsable").ok()
    job_id = int(re.fullmatch(r"Submitted batch job (\d+)\n", done.out).group(1))
    assert output(cluster, job_id) == "4|one|two words||--parsable|"
    assert cluster.job(job_id).request.name == "args.sh"


def test_script_from_stdin_and_wrap(cluster: LiveCluster) -> None:
    from_stdin = cluster.sbatch(stdin=b"#!/bin/sh\necho from stdin\n")
    wrapped = cluster.sbatch("--wrap", "echo $0 | sed 's,.*/,,'; exit 0")
    assert output(cluster, from_stdin) == "from stdin\n"
    assert output(cluster, wrapped) == "slurm_script\n"
    assert [cluster.job(i).request.name for i in (from_stdin, wrapped)] == ["sbatch", "wrap"]


def test_directives_give_way_to_environment_and_command_line(cluster: LiveCluster) -> None:
    text = """#!/bin/sh
# a comment
#SBATCH --job-name=written --time=7   # ends here --time=9
#SBATCH -c 3 --comment="two words"
#SBATCH --partition=short

echo "$SLURM_JOB_NAME $SLURM_CPUS_PER_TASK"
#SBATCH --job-name=too-late
"""
    script = cluster.script("directives.sh", text)
    job_id = cluster.sbatch("-c", "2", str(script), SBATCH_JOB_NAME="from-env", SBATCH_CPUS_PER_TASK="5")
    assert output(cluster, job_id) == "from-env 2\n"
    job = cluster.job(job_id)
    assert (job.time_limit_s, job.partition, job.request.comment) == (420, "short", "two words")


def test_bad_directive_ends_with_255_and_submits_nothing(cluster: LiveCluster) -> None:
    before = job_ids(cluster)
    script = cluster.script("bad.sh", "#!/bin/sh\n#SBATCH --no-such-option\ntrue\n")
    done = cluster.run("sbatch", str(script))
    assert done.status == 255 and done.out == "" and "no-such-option" in done.err
    assert "Traceback" not in done.err and job_ids(cluster) <= before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--partition=nowhere", "--wrap=true"], "Invalid partition name specified"),
        (["-n", "100000", "--wrap=true"], "Batch job submission failed"),
        (["--gres=gpu:a100:1", "--wrap=true"], "Batch job submission failed"),
        (["-p", "short", "-w", "n4", "--wrap=true"], "Batch job submission failed"),
        (["--array=1-", "--wrap=true"], "rray"),
        (["--dependency=afterok:99999999", "--wrap=true"], "Job dependency problem"),
        (["/no/such/script"], "Unable to open file"),
    ],
)
def test_what_cannot_run_is_refused_with_status_1(cluster: LiveCluster, words: list[str], text: str) -> None:
    before = job_ids(cluster)
    done = cluster.run("sbatch", *words)
    assert (done.status, done.out) == (1, ""), str(done)
    assert text in done.err and "Traceback" not in done.err
    assert job_ids(cluster) <= before


# ---- how it ends ---------------------------------------------------------------------------------------------------


def test_exit_codes_and_signals_in_sacct(cluster: LiveCluster) -> None:
    cases = {
        "exit 0": ("COMPLETED", "0:0", "COMPLETED"),
        "exit 7": ("FAILED", "7:0", "FAILED"),
        "kill -9 $$": ("FAILED", "0:9", "CANCELLED"),  # a step that a signal ended, as in Slurm
    }
    ids = {what: cluster.sbatch("--wrap", f"exec sh -c '{what}'") for what in cases}
    cluster.wait_ends(*ids.values())
    for what, (state, exit_code, of_step) in cases.items():
        rows = sacct(cluster, ids[what], "JobID,State,ExitCode")
        assert rows == [[str(ids[what]), state, exit_code], [f"{ids[what]}.batch", of_step, exit_code]]


def test_wait_returns_the_jobs_own_code(cluster: LiveCluster) -> None:
    done = cluster.run("sbatch", "--wait", "--wrap", "exit 3")
    assert done.status == 3 and re.fullmatch(r"Submitted batch job \d+\n", done.out)
    assert cluster.run("sbatch", "-W", "--array=1-3", "--wrap", "exit $SLURM_ARRAY_TASK_ID").status == 3
    assert cluster.run("sbatch", "-W", "--wrap", "exec sh -c 'kill -TERM $$'").status == 128 + 15


def test_test_only_says_when_and_where_and_submits_nothing(cluster: LiveCluster) -> None:
    before = job_ids(cluster)
    done = cluster.run("sbatch", "--test-only", "-c", "2", "-w", "n3", "--wrap", "true")
    assert done.status == 0 and done.out == ""
    form = r"sbatch: Job \d+ to start at \d{4}-\d\d-\d\dT[\d:]{8} using 2 processors on nodes n3 in partition main\n"
    assert re.fullmatch(form, done.err), str(done)
    assert job_ids(cluster) <= before


# ---- output --------------------------------------------------------------------------------------------------------


def test_output_patterns_and_separate_stderr(cluster: LiveCluster) -> None:
    both = "echo to out; echo to err >&2"
    merged = cluster.sbatch("--wrap", both)
    apart = cluster.sbatch("-J", "my job", "-o", "o-%j-%x-%u-%N-%n-%%.txt", "-e", "e-%05j.txt", "--wrap", both)
    assert sorted(output(cluster, merged).splitlines()) == ["to err", "to out"]
    cluster.wait_state(apart, "COMPLETED")
    job = cluster.job(apart)
    out = cluster.work / f"o-{apart}-my job-{job.user_name}-{job.node_list}-0-%.txt"
    assert out.read_text() == "to out\n"
    assert (cluster.work / f"e-{apart:05d}.txt").read_text() == "to err\n"
    assert not (cluster.work / f"slurm-{apart}.out").exists()
    assert os.fsdecode(job.std_out) == str(out)


def test_open_mode(cluster: LiveCluster) -> None:
    path = cluster.work / "mode.txt"
    path.write_text("old\n")
    appended = cluster.sbatch("-o", "mode.txt", "--open-mode=append", "--wrap", "echo new")
    assert output(cluster, appended, path) == "old\nnew\n"
    truncated = cluster.sbatch("-o", "mode.txt", "--open-mode=truncate", "--wrap", "echo new")
    assert output(cluster, truncated, path) == "new\n"


def test_input_and_chdir(cluster: LiveCluster) -> None:
    folder = cluster.work / "else where"
    folder.mkdir(exist_ok=True)
    (folder / "in.txt").write_text("read me\n")
    job_id = cluster.sbatch(
        "-D", str(folder), "-i", "in.txt", "-o", "here.txt", "--wrap", "pwd; cat; echo $SLURM_SUBMIT_DIR"
    )
    assert output(cluster, job_id, folder / "here.txt") == f"{folder}\nread me\n{cluster.work}\n"


def test_output_that_cannot_be_opened_fails_the_job_with_a_reason(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-o", "/no/such/folder/x", "--no-requeue", "--wrap", "true")
    cluster.wait_ends(job_id)
    done = cluster.run("scontrol", "show", "job", str(job_id)).ok()
    assert "JobState=FAILED" in done.out, str(done)
    assert cluster.node(cluster.job(job_id).node_list or "n1").base_state != "DOWN"


def test_a_daemonised_child_does_not_outlive_the_job(cluster: LiveCluster) -> None:
    pid_file = cluster.work / "left.pid"
    script = (
        "setsid sh -c 'echo $$ >left.pid.new; mv left.pid.new left.pid; exec sleep 300' </dev/null >/dev/null 2>&1 & "
    )
    job_id = cluster.sbatch("--wrap", script + "while [ ! -e left.pid ]; do sleep 0.02; done")
    cluster.wait_state(job_id, "COMPLETED")
    assert not Path(f"/proc/{int(pid_file.read_text())}").exists()


# ---- environment ---------------------------------------------------------------------------------------------------


def test_environment_of_a_batch_job(cluster: LiveCluster) -> None:
    before_s = int(time.time())
    line = ["-J", "envy", "-p", "short", "-n", "2", "-c", "3", "--mem=100", "-w", "n2", "-t", "3", "--comment=hi"]
    job_id = cluster.sbatch(*line, "--gres=gpu:2", "-o", "env-%j", "--wrap", "env -0", MINE="kept")
    env = words_of(output(cluster, job_id, cluster.work / f"env-{job_id}"))
    job = cluster.job(job_id)
    expected = {
        "SLURM_JOB_ID": str(job_id),
        "SLURM_JOBID": str(job_id),
        "SLURM_JOB_NAME": "envy",
        "SLURM_JOB_USER": job.user_name,
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_PARTITION": "short",
        "SLURM_JOB_NODELIST": "n2",
        "SLURM_NODELIST": "n2",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": "2",
        "SLURM_NPROCS": "2",
        "SLURM_CPUS_PER_TASK": "3",
        "SLURM_CPUS_ON_NODE": "6",
        "SLURM_JOB_CPUS_PER_NODE": "6",
        "SLURM_TASKS_PER_NODE": "2",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_SUBMIT_DIR": str(cluster.work),
        "SLURM_SUBMIT_HOST": os.uname().nodename,
        "SLURM_CLUSTER_NAME": "e2e",
        "SLURMD_NODENAME": "n2",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_JOB_START_TIME": str(job.start_at_us // 1_000_000),
        "SLURM_JOB_END_TIME": str(job.start_at_us // 1_000_000 + 180),
        "PENSTOCK_CLUSTER": str(cluster.cluster_file),
        "MINE": "kept",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert int(env["SLURM_JOB_START_TIME"]) >= before_s and env["TMPDIR"]
    absent = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_MEM_PER_CPU")
    assert [name for name in absent if name in env] == []


@pytest.mark.parametrize(
    ("export", "one", "two", "added"),
    [
        ("", "1", "2", None),
        ("ALL", "1", "2", None),
        ("NONE", None, None, None),
        ("ONE", "1", None, None),
        ("ONE,ADDED=a b", "1", None, "a b"),
        ("ALL,ADDED=x", "1", "2", "x"),
        ("ONE=other", "other", None, None),
    ],
)
def test_export(cluster: LiveCluster, export: str, one: str | None, two: str | None, added: str | None) -> None:
    words = [f"--export={export}"] if export else []
    job_id = cluster.sbatch(*words, "-o", "exp-%j", "--wrap", "/usr/bin/env -0", ONE="1", TWO="2")
    env = words_of(output(cluster, job_id, cluster.work / f"exp-{job_id}"))
    assert (env.get("ONE"), env.get("TWO"), env.get("ADDED")) == (one, two, added)
    assert env["SLURM_JOB_ID"] == str(job_id)


def test_submission_from_inside_a_job(cluster: LiveCluster) -> None:
    outer = cluster.script(
        "outer.sh",
        "#!/bin/sh\n"
        f"'{sys.executable}' -P -m cli.sbatch --parsable -o inner.txt --wrap "
        "'echo ${SLURM_ARRAY_TASK_ID:-none} $SLURM_JOB_NAME'\n",
    )
    job_id = cluster.sbatch("--array=5", "-J", "outer", "-o", "outer.txt", str(outer))
    cluster.wait_ends(job_id)
    inner_id = int((cluster.work / "outer.txt").read_text())
    assert output(cluster, inner_id, cluster.work / "inner.txt") == "none wrap\n"


def test_commands_know_their_version_and_help(cluster: LiveCluster) -> None:
    for name in ("sbatch", "squeue", "sinfo", "scancel", "scontrol", "sacct"):
        done: Done = cluster.run(name, "--version").ok()
        assert re.fullmatch(r"slurm \d+\.\d+\.\d+\n", done.out)
