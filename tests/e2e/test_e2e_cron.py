"""scrontab, strigger and swait with real daemons."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import CTLD, ClusterConf, LiveCluster

CONF = ClusterConf(more=("ScronParameters=enable,explicit_scancel", "SlurmctldParameters=allow_user_triggers"))


@pytest.fixture(scope="module")
def own() -> Iterator[LiveCluster]:
    with LiveCluster(2, CONF) as cluster:
        yield cluster


def ids_of(text: str) -> list[int]:
    found = re.fullmatch(r"scrontab: jobs: (.*)\n", text)
    assert found is not None, text
    return [int(word) for word in found[1].split(", ")]


def install(cluster: LiveCluster, text: str) -> list[int]:
    done = cluster.run("scrontab", "-v", "-", stdin=text.encode())
    assert done.status == 0, str(done)
    return ids_of(done.err)


def test_a_crontab_is_kept_listed_and_survives_a_crash(own: LiveCluster) -> None:
    text = "# mine\nWHO=world\n#SCRON -t 5 -J greet\n0 3 * * * echo hello $WHO\n@yearly true\n"
    first, second = install(own, text)
    own.kill(CTLD)
    own.start_controller()
    assert own.run("scrontab", "-l").ok().out == text
    shown = own.run("scontrol", "show", "job", str(first)).ok().out
    assert '   CronJob=Yes CrontabSpec="0 3 * * *"\n' in shown
    assert "JobName=greet" in shown and "Reason=BeginTime" in shown and "TimeLimit=00:05:00" in shown
    assert re.search(r"StartTime=\S+T03:00:00 ", shown)
    script = own.run("scontrol", "write", "batch_script", str(first), "-").ok().out
    assert script.startswith("#!/bin/sh\n") and script.endswith("'0 3 * * *'\necho hello world\n")

    refused = own.run("scancel", str(second))
    assert refused.status == 1 and "Cannot cancel scrontab jobs without --cron flag." in refused.err
    own.run("scancel", "--cron", str(second)).ok()
    assert own.run("scrontab", "-l").ok().out == text.replace("@yearly", "#DISABLED: @yearly")

    wrong = own.run("scrontab", "-", stdin=b"@daily true\n#SCRON -N 99\n@daily true\n")
    assert (wrong.status, wrong.out.splitlines()[0]) == (1, "There was an issue with the job submission on lines 2-3")
    assert own.job(first).state == "PENDING"
    own.run("scrontab", "-r").ok()
    assert own.job(first).state == "CANCELLED"
    gone = own.run("scrontab", "-l")
    assert (gone.status, gone.out.startswith("no crontab for ")) == (1, True)


@pytest.mark.slow  # it waits for a minute to begin, twice
def test_a_job_runs_at_its_minute_and_comes_again(own: LiveCluster, tmp_path: Path) -> None:
    out = own.work / "cron.out"
    (job_id,) = install(
        own, f"#SCRON -o {out} --open-mode=append\n* * * * * echo $HOME $SLURM_JOB_ID $SLURM_RESTART_COUNT\n"
    )
    first = own.wait_text(out, f" {job_id}")
    job = own.wait_state(job_id, "PENDING")
    assert first.split()[0] == str(Path.home()) and job.request.begin_at_us % 60_000_000 == 0
    own.kill(CTLD)
    own.start_controller()
    own.wait_text(out, f"{job_id} 1")
    own.wait_state(job_id, "PENDING")
    runs = [record.state for record in own.records(job_id)]
    assert runs[:2] == ["COMPLETED", "COMPLETED"] and len(runs) == 3
    own.run("scrontab", "-r").ok()


def test_a_trigger_runs_its_program_once(own: LiveCluster) -> None:
    own.wait_nodes("n1", "n2")
    told = own.work / "told"
    program = own.script("tell", f'#!/bin/sh\necho "$USER $*" >> {told}\n')
    program.chmod(0o755)
    own.run("strigger", "--set", "--node=n2", "--down", f"--program={program} extra").ok()
    again = own.run("strigger", "--set", "--node=n2", "--down", f"--program={program} extra")
    assert again.status == 1 and "Duplicate event trigger" in again.err
    lines = own.run("strigger", "--get").ok().out.splitlines()
    assert lines[0].split() == ["TRIG_ID", "RES_TYPE", "RES_ID", "TYPE", "OFFSET", "USER", "FLAGS", "PROGRAM"]
    assert lines[1].split()[1:5] == ["node", "n2", "down", "0"]
    own.run("scontrol", "update", "nodename=n2", "state=down", "reason=test").ok()
    assert own.wait_text(told, "extra n2").split()[1:] == ["extra", "n2"]
    own.wait(lambda: len(own.run("strigger", "--get", "-N").ok().out) == 0, "the trigger is gone")
    own.run("scontrol", "update", "nodename=n2", "state=resume").ok()

    job = own.sbatch("--wrap", "sleep 100")
    own.run("strigger", "--set", f"--jobid={job}", "--fini", f"--program={program}").ok()
    own.run("scancel", str(job)).ok()
    own.wait_text(told, f" {job}\n")


def test_swait_waits_for_steps(own: LiveCluster) -> None:
    srun, swait = (f"{sys.executable} -P -m cli.{name}" for name in ("srun", "swait"))
    text = f"#!/bin/sh\n{srun} -n1 --exact sh -c 'touch up; sleep 2' &\nuntil test -e up; do sleep 0.1; done\n"
    script = own.script("steps", text + f"{swait} --follow\necho swait $?\nwait\n")
    out = own.work / "swait.out"
    job = own.sbatch("-n2", "-o", str(out), str(script))
    text = own.wait_text(out, "swait 0")
    assert text == f"StepId={job}.0 code=0:0\nJobId={job} steps drained\nswait 0\n"
    own.wait_ends(job)
    assert own.run("swait", f"{job}.7").status == 3
    assert own.run("swait", str(job)).ok().out == ""
    running = own.sbatch("--wrap", f"{srun} sleep 100")
    own.wait(lambda: f" {running}.0 " in own.run("squeue", "-h", "-s", "-j", str(running)).out, "its step runs")
    assert own.run("swait", "--timeout=1", str(running)).status == 2
    own.run("scancel", str(running)).ok()
    assert own.run("swait", "999999").status == 1
