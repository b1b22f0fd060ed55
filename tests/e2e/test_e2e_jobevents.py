"""Mail, another user's job, and jobs that run again: with the real commands, daemons and a script as MailProg."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster

NOBODY = pwd.getpwnam("nobody")
MAILPROG = '#!/bin/sh\n{{ printf "%s|" "$@"; cat; echo "$SLURM_JOB_ID $SLURM_JOB_MAIL_TYPE"; }} >> {0}\n'


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of MailProg and what it was given."""
    folder = tmp_path_factory.mktemp("post")
    program = folder / "mailprog"
    program.write_text(MAILPROG.format(folder / "mails"))
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cluster(post: Path) -> Iterator[LiveCluster]:
    more = (f"MailProg={post / 'mailprog'}", "MailDomain=example.org", "RequeueExit=7")
    with LiveCluster(1, ClusterConf(more=more)) as running:
        yield running


def test_mail_tells_of_a_jobs_life(cluster: LiveCluster, post: Path) -> None:
    text = "--wrap=true"
    plain = cluster.sbatch("-J", "told", "--mail-type=BEGIN,END", text)
    cluster.wait_text(post / "mails", f"{plain} Ended")
    array = cluster.sbatch("-J", "many", "--array=1-2", "--mail-type=END", "--mail-user=boss@site.org", text)
    # The script writes a job's number behind each subject; the summary's is that of the task that ended last.
    lines = cluster.wait(
        lambda: found if len(found := (post / "mails").read_text().splitlines()) == 6 else None, "both ends are told"
    )
    user = pwd.getpwuid(os.getuid()).pw_name
    began, ended = (f"Slurm Job_id={plain} Name=told {word}" for word in ("Began, Queued time 0", "Ended, Run time 0"))
    assert lines[0].startswith(f"-s|{began}") and f"|{user}@example.org|{began}" in lines[0]
    assert lines[1] == f"{plain} Began"
    assert lines[2].startswith(f"-s|{ended}") and lines[2].endswith(", COMPLETED, ExitCode 0")
    summary = f"Slurm Array Summary Job_id={array}_* ({array}) Name=many Ended, "
    assert lines[4].startswith(f"-s|{summary}") and "|boss@site.org|" in lines[4]
    assert lines[4].endswith(", COMPLETED, ExitCode [0-0]") and len(lines) == 6


def test_a_finished_job_runs_again(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-o", "again-%j.out", "--open-mode=append", "--wrap", "echo run $SLURM_RESTART_COUNT")
    cluster.wait_state(job_id, "COMPLETED")
    cluster.run("scontrol", "requeue", str(job_id)).ok()
    cluster.wait_text(cluster.work / f"again-{job_id}.out", "run 1")
    job = cluster.wait_state(job_id, "COMPLETED")
    assert job.attempt == 1
    rows = cluster.run("sacct", "-nXPD", "-j", str(job_id), "-o", "State,ExitCode").ok().out
    assert rows == "REQUEUED|0:0\nCOMPLETED|0:0\n"


def test_an_exit_status_asks_for_another_run(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-o", "/dev/null", "--wrap", '[ -n "$SLURM_RESTART_COUNT" ] || exit 7')
    assert cluster.wait_state(job_id, "COMPLETED", "FAILED").attempt == 1


@pytest.mark.root
def test_root_submits_for_another(cluster: LiveCluster, tmp_path: Path) -> None:
    folder = cluster.work / "for-nobody"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    words = ("-D", str(folder), "-o", "out", "--wrap", "id -u; id -g")
    job_id = cluster.sbatch(f"--uid={NOBODY.pw_uid}", *words)
    job = cluster.wait_state(job_id, "COMPLETED")
    assert (job.user_id, job.user_name) == (NOBODY.pw_uid, "nobody")
    assert (folder / "out").read_text().split() == [str(NOBODY.pw_uid), str(NOBODY.pw_gid)]
    assert (folder / "out").stat().st_uid == NOBODY.pw_uid
    refused = cluster.run("sbatch", "--parsable", "--uid=0", *words, uid=NOBODY.pw_uid)
    assert refused.status == 1 and not refused.out
    assert "Invalid user id" in refused.err or "only permitted by root" in refused.err
