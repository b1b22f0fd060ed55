"""Mail, another user's job, and jobs that run again: with the real commands, daemons and a script as MailProg."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster
from openway import open_way

NOBODY = pwd.getpwnam("nobody")
#: Several run at once, and none before another: each mail is a file of its own, whole when it has its name.
MAILPROG = """#!/bin/sh
new=$(mktemp {0}/new.XXXXXX)
{{ printf "%s|" "$@"; cat; echo "$SLURM_JOB_ID $SLURM_JOB_MAIL_TYPE"; }} > $new
mv $new {0}/mail.${{new##*.}}
"""


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of MailProg and what it was given."""
    folder = tmp_path_factory.mktemp("post")
    open_way(folder)
    folder.chmod(0o777)  # a controller that is root runs it as nobody
    program = folder / "mailprog"
    program.write_text(MAILPROG.format(folder))
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
    array = cluster.sbatch("-J", "many", "--array=1-2", "--mail-type=END", "--mail-user=boss@site.org", text)
    cluster.wait(lambda: len(list(post.glob("mail.*"))) >= 3, "begin and both ends are told")
    mails = [path.read_text().splitlines() for path in post.glob("mail.*")]
    # The script writes a job's number and the kind behind each subject; the summary's is that of the task that ended last.
    assert {len(lines) for lines in mails} == {2}
    user = pwd.getpwuid(os.getuid()).pw_name
    subjects = {behind: line for line, behind in mails}
    began, ended = subjects.pop(f"{plain} Began"), subjects.pop(f"{plain} Ended")
    subject = f"Slurm Job_id={plain} Name=told Began, Queued time 0"
    assert began.startswith(f"-s|{subject}") and f"|{user}@example.org|{subject}" in began
    subject = f"Slurm Job_id={plain} Name=told Ended, Run time 0"
    assert ended.startswith(f"-s|{subject}") and ended.endswith(", COMPLETED, ExitCode 0")
    (summary,) = subjects.values()
    assert summary.startswith(f"-s|Slurm Array Summary Job_id={array}_* ({array}) Name=many Ended, ")
    assert "|boss@site.org|" in summary and summary.endswith(", COMPLETED, ExitCode [0-0]")


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
