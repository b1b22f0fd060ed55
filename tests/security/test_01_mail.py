"""Item 1: an address of a job is a word of a mail program, which runs some of them. Real programs, and the real rules."""

import asyncio
import logging
import os
import pwd
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from openway import open_way
from patience import ANSWER_S

from ctld.core.records.effects import SendMail
from ctld.core.records.events import CronEntry, JobSubmission, SubmitJob, UpdateCrontab, UpdateJobs
from ctld.core.records.job import job_row
from ctld.core.records.request import JobRequest
from ctld.runtime import programs
from ctld.runtime.lookups import Lookups
from ctld.runtime.mail import MailRunner, subject
from ctld.runtime.programs import UserIdentity
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.mail import is_mail_address, parse_mail_user
from sdk import request as sdk_request
from sdk.errors import InvalidRequest
from tests.core.world import SPEC, World, make_config

NOBODY = pwd.getpwnam("nobody")
#: Says who it is, with what exemption, and which words it was given; in one step, so that it is read whole.
TELL = """#!/bin/sh
{ grep -E '^(Uid|Gid|Groups):' /proc/self/status; cat /proc/self/oom_score_adj; printf '<%s>' "$@"; cat; } > "$0.new"
mv "$0.new" "$0.out"
"""
HOSTILE = (
    "|/tmp/x.sh", "| id", "/etc/cron.d/x", "+folder", "-E", "-Sx=y", "--", "@host", "a@", "a@b@c", "a,b", "a b", "a;b", "a|b",
    "a`id`", "$(id)", "a/../b", "a\n~!id", "a\n", "a\0b", "a\x1b[2J", "a@-x", "a@b..c", "a@b-", "a@.b", "a<b>", '"a"@b', "a:b", "a!b",
    "a%b@c", "a'b", "\u00e4@b", "a@b\u2028", "a" * 65, "a@" + "b" * 254, ".a", "a@b/c", ":include:/etc/passwd",
)  # fmt: skip
GOOD = (
    "ann",
    "ann@example.org",
    "ann+jobs@example.org",
    "a.b-c_d@h",
    "_svc",
    "9@9",
    "a" * 64 + "@" + ".".join(["b" * 62] * 4),
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    assert not is_mail_address(text)
    with pytest.raises(BadValue, match="Invalid mail user"):
        parse_mail_user(text)


@pytest.mark.parametrize("text", GOOD)
def test_plain_addresses_pass(text: str) -> None:
    assert parse_mail_user(text) == text
    assert parse_mail_user("") == ""


@pytest.mark.parametrize("text", ["|/tmp/x.sh", "/tmp/f", "-v", "a\n~!id"])
def test_every_way_in_refuses_it(text: str) -> None:
    """sbatch, a component of a heterogeneous job, scontrol update and scrontab."""
    world = World(make_config(scron_parameters=(("enable", ""),)))
    ann = world.actor("ann")
    bad, good = JobSubmission(mail_user=text), JobSubmission(mail_user="ann")
    assert "Invalid mail user" in world.submit(bad)[0]
    het = SubmitJob(ann, "k" * 32, world.now_us, good, SPEC, False, world.reply_to())
    het = msgspec.structs.replace(het, components=(bad,))
    assert "Invalid mail user" in world.do(het)[0]
    world.submit(good)
    (job,) = world.core.state.jobs.values()
    update = UpdateJobs(ann, (str(job.job_id),), {"mailuser": text}, reply_to=world.reply_to())
    assert "Invalid mail user" in "".join(world.do(update))
    assert world.core.state.jobs[job.job_id].request.mail_user == "ann"
    entry = CronEntry(bad, SPEC, "@hourly", 1, 1)
    tab = UpdateCrontab(ann, ann, "@hourly x\n", (entry,), world.reply_to())
    assert "Invalid mail user" in "".join(world.do(tab))
    assert len(world.core.state.jobs) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_01_the_python_interface_refuses_it(text: str) -> None:
    """Of a keyword argument, and of the script's own line, before anything is sent."""
    program = sdk_request.from_text("#!/bin/sh\n", ())
    with pytest.raises(InvalidRequest):
        sdk_request.submission(program, {}, "", False, mail_user=text)
    line = f"#SBATCH --mail-user={shlex.quote(text)}\n"
    if "\n" not in text and "\0" not in text:
        program = sdk_request.from_text(f"#!/bin/sh\n{line}", ())
        with pytest.raises(InvalidRequest):
            sdk_request.submission(program, {}, "", False)


def mail_of(**request: Any) -> SendMail:
    """The mail of a job as it may stand in a database that is older than the rules."""
    world = World(make_config())
    world.submit(JobSubmission(mail_types=("END",), name="train"))
    row = job_row(world.core.state.jobs[1])
    return SendMail(row._replace(request=JobRequest(**({"name": "train"} | request))), "END", row.submit_at_us)


def send(program: Path, *effects: SendMail, **config: Any) -> None:
    async def story() -> None:
        made = Config(mail_prog=str(program), **config)
        runtime: Any = SimpleNamespace(core=SimpleNamespace(state=SimpleNamespace(config=made)), handlers={})
        MailRunner(runtime, Lookups())  # among the handlers from here on
        for one in effects:
            runtime.handlers[SendMail](one)
        async with asyncio.timeout(ANSWER_S):
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(story())


@pytest.fixture
def teller(tmp_path: Path) -> Path:
    open_way(tmp_path)
    tmp_path.chmod(0o777)  # whoever runs it writes there
    path = tmp_path / "mail"
    path.write_text(TELL)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", ["|/tmp/x.sh", "/tmp/f", "-Sx", "a\n~!id"])
def test_a_job_that_is_older_than_the_rule_is_mailed_nothing(
    teller: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(teller, mail_of(mail_user=text))
    assert not Path(f"{teller}.out").exists()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("job 1: no mail END: ") and "is not an address" in line and "\n" not in line


def test_the_address_stands_behind_the_options(teller: Path) -> None:
    send(teller, mail_of(mail_user="ann@example.org"))
    said = Path(f"{teller}.out").read_text()
    assert "<-s><Slurm Job_id=1 Name=train Ended" in said and "><--><ann@example.org>" in said


def test_no_job_name_makes_a_second_line() -> None:
    """mailutils runs lines of a body that begin with `~!`."""
    about = subject(mail_of(name="x\n~!touch /tmp/x\r\n\tBcc: all\x1b[2J"))
    assert about.isprintable() and "\\x0a~!touch" in about


@pytest.mark.root
def test_a_controller_that_is_root_mails_as_nobody(teller: Path) -> None:
    """Uid, gid and groups are nobody's. The standard score is not the controller's (raised, as only some may lower it)."""
    own = Path("/proc/self/oom_score_adj").read_text()
    Path("/proc/self/oom_score_adj").write_text("300")
    try:
        send(teller, mail_of())
    finally:
        Path("/proc/self/oom_score_adj").write_text(own)
    said = Path(f"{teller}.out").read_text().splitlines()
    ids = {line.partition(":")[0]: line.partition(":")[2].split() for line in said[:3]}
    groups = {str(gid) for gid in os.getgrouplist("nobody", NOBODY.pw_gid)}
    assert ids["Uid"] == [str(NOBODY.pw_uid)] * 4 and ids["Gid"] == [str(NOBODY.pw_gid)] * 4
    assert set(ids["Groups"]) == groups and "0" not in groups
    assert said[3] == "0"


@pytest.mark.root
def test_or_as_the_user_whom_the_site_names(teller: Path) -> None:
    """PenstockMailUser."""
    send(teller, mail_of(), penstock_mail_user="daemon")
    uid = pwd.getpwnam("daemon").pw_uid
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n" in Path(f"{teller}.out").read_text()


@pytest.mark.root
@pytest.mark.parametrize("user", ["root", "no-such-user"])
def test_mail_is_never_sent_as_root(teller: Path, user: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        send(teller, mail_of(), penstock_mail_user=user)
    assert not Path(f"{teller}.out").exists() and "MailProg cannot be run" in caplog.text


@pytest.mark.root
def test_who_cannot_be_become_runs_nothing(teller: Path) -> None:
    """-1 is "as before" to the kernel: the process between looks at what it has become, and the program does not begin."""
    for uid, gid in ((0xFFFFFFFF, NOBODY.pw_gid), (NOBODY.pw_uid, 0xFFFFFFFF)):
        with pytest.raises(PermissionError):
            asyncio.run(programs.start([str(teller)], {}, UserIdentity(uid, gid, ())))
    assert not Path(f"{teller}.out").exists()


@pytest.mark.root
def test_a_program_that_is_missing_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(programs.start([str(tmp_path / "no")], {}, UserIdentity(0, 0, (0,))))
