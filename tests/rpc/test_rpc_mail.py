"""MailProg: what it is given, and that a bad one harms nobody."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openway import open_way
from patience import ANSWER_S

from ctld.core.records.effects import ArrayEnd, SendMail
from ctld.core.records.events import JobSubmission
from ctld.core.records.job import job_row
from ctld.core.records.request import JobRequest
from ctld.runtime import mail
from ctld.runtime.lookups import Lookups
from ctld.runtime.mail import MailRunner, subject
from penstock.values.config import Config
from penstock.values.states import JobState
from tests.core.world import World, make_config

PROGRAM = '#!/bin/sh\n{ for word; do echo "arg=$word"; done; echo "in=$(cat)"; env; } > "$0.out.new"\nmv "$0.out.new" "$0.out"\n'


def effect(kind: str = "END", **fields: Any) -> SendMail:
    world = World(make_config())
    world.submit(JobSubmission(mail_types=("END",), name='a "b" $(touch x)'))
    row = job_row(world.core.state.jobs[1])
    row = row._replace(start_at_us=row.submit_at_us + 61_000_000, end_at_us=row.submit_at_us + 71_000_000)
    return SendMail(row._replace(state=JobState.FAILED, exit_code=3, **fields), kind, row.end_at_us)


def send(program: Path, effects: list[SendMail], wait: Callable[[MailRunner], Awaitable[None]]) -> None:
    async def story() -> None:
        config = Config(mail_prog=str(program), mail_domain="example.org")
        runtime: Any = SimpleNamespace(core=SimpleNamespace(state=SimpleNamespace(config=config)), handlers={})
        runner = MailRunner(runtime, Lookups())
        for one in effects:
            runtime.handlers[SendMail](one)
        await wait(runner)

    asyncio.run(story())


async def all_done(runner: MailRunner) -> None:
    async with asyncio.timeout(ANSWER_S):
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


def script(folder: Path, text: str) -> Path:
    open_way(folder)
    folder.chmod(0o777)  # who writes what it was given is nobody
    path = folder / "mailprog"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_program_gets_subject_address_body_and_environment(tmp_path: Path) -> None:
    program = script(tmp_path, PROGRAM)
    send(program, [effect()], all_done)
    lines = Path(f"{program}.out").read_text().splitlines()
    about = 'Slurm Job_id=1 Name=a "b" $(touch x) Ended, Run time 00:00:10, FAILED, ExitCode 3'
    assert lines[:5] == ["arg=-s", f"arg={about}", "arg=--", "arg=ann@example.org", f"in={about}"]
    assert {
        "SLURM_JOB_ID=1", "SLURM_JOB_MAIL_TYPE=Ended", "SLURM_JOB_STATE=FAILED", "SLURM_JOB_RUN_TIME=00:00:10",
        "SLURM_JOB_EXIT_CODE_MAX=3", "SLURM_JOB_EXIT_CODE_MIN=3", "SLURM_JOB_TERM_SIGNAL_MAX=0", "SLURM_JOB_USER=ann",
    } <= set(lines)  # fmt: skip
    assert not (tmp_path / "x").exists() and not any(line.startswith("SLURM_SCRIPT_CONTEXT") for line in lines)


@pytest.mark.parametrize(("kind", "fields", "said"), [
    ("BEGIN", {}, "Began, Queued time 00:01:01"),
    ("FAIL", {}, "Failed, Run time 00:00:10, FAILED, ExitCode 3"),
    ("REQUEUE", {}, "Requeued, Run time 00:00:10"),
    ("INVALID_DEPEND", {"start_at_us": 0, "end_at_us": 0}, "Invalid dependency"),
    ("TIME_LIMIT_80", {}, "Reached 80% of time limit, Run time 00:00:10"),
    ("END", {"start_at_us": 0, "exit_signal": 9}, "Ended, FAILED"),
])  # fmt: skip
def test_subjects(kind: str, fields: dict[str, Any], said: str) -> None:
    assert subject(effect(kind, **fields)) == f'Slurm Job_id=1 Name=a "b" $(touch x) {said}'


def test_subjects_of_arrays() -> None:
    one = effect()
    task = one.job._replace(job_id=7, array_job_id=5, array_task_id=2)
    assert subject(SendMail(task, "BEGIN", 0)).startswith("Slurm Array Task Job_id=5_2 (7) Name=")
    whole = SendMail(task, "END", 0, True, ArrayEnd(True, 0, 3, 0))
    assert subject(whole).startswith("Slurm Array Summary Job_id=5_* (5) Name=")
    assert subject(whole).endswith(", Mixed, ExitCode [0-3]")
    long = task._replace(request=JobRequest(name="x" * 5_000))
    assert len(subject(SendMail(long, "END", 0))) == mail.SUBJECT_MAX


def test_a_missing_program_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_way(tmp_path)
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(tmp_path / "no", [effect(), effect(), effect()], all_done)
    assert [r.getMessage() for r in caplog.records] == [
        f"MailProg cannot be run, jobs' mails are not sent: {tmp_path}/no: No such file or directory"
    ]


def test_a_failing_program_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(script(tmp_path, "#!/bin/sh\nexit 3\n"), [effect()], all_done)
    assert [r.getMessage() for r in caplog.records] == [f"job 1: no mail END: {tmp_path}/mailprog: exit status 3"]


def test_a_program_that_hangs_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "MAIL_SECONDS_MAX", 0.2)
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(script(tmp_path, "#!/bin/sh\nsleep 1000 & wait\n"), [effect()], all_done)
    assert "killed, it did not end within" in caplog.text


def test_what_comes_too_thick_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "MAILS_WAITING_MAX", 2)
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(script(tmp_path, "#!/bin/sh\n"), [effect()] * 5, all_done)
    (line,) = [r.getMessage() for r in caplog.records]
    assert line.startswith("job 1: mail END is dropped, as are further ones") and line.endswith("2 of all")
