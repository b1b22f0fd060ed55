"""--uid and --gid: whose job it is in the end, and who may say so."""

import asyncio
import grp
import os
import pwd
from typing import Any

import pytest

from ctld.core.records.events import Actor, JobSubmission, Role, SubmitJob
from ctld.core.records.job import SpecRow
from ctld.rpc.gate.auth import UserDirectory
from ctld.rpc.gate.runas import submitted_for
from ctld.runtime.errors import BadRequest
from ctld.runtime.lookups import Lookups
from penstock.values.refusals import Code

NOBODY = pwd.getpwnam("nobody")
DAEMON = pwd.getpwnam("daemon")
ROOT = Actor(0, 0, "root", "root", ("root",), Role.ADMINISTRATOR)
SLURM = Actor(DAEMON.pw_uid, DAEMON.pw_gid, "daemon", "daemon", ("daemon",), Role.ADMINISTRATOR)
ADMIN = Actor(NOBODY.pw_uid, NOBODY.pw_gid, "nobody", "nogroup", ("nogroup",), Role.ADMINISTRATOR)


def submitted(actor: Actor, **fields: Any) -> SubmitJob:
    event = SubmitJob(actor, "k", 1, JobSubmission(name="x", **fields), SpecRow(b"", b"", (), ()))
    return asyncio.run(submitted_for(event, "daemon", UserDirectory(lambda: 0, Lookups())))


@pytest.mark.parametrize("actor", [ROOT, SLURM])
def test_root_and_slurm_user_submit_for_others(actor: Actor) -> None:
    event = submitted(actor, run_as_uid=NOBODY.pw_uid)
    group = grp.getgrgid(NOBODY.pw_gid).gr_name
    assert event.actor == Actor(NOBODY.pw_uid, NOBODY.pw_gid, "nobody", group, (group,), Role.USER, by=actor)
    assert event.job == JobSubmission(name="x")  # whose it was is not the core's to know


def test_a_group_that_is_not_his_is_given_by_root() -> None:
    event = submitted(ROOT, run_as_uid=NOBODY.pw_uid, run_as_gid=DAEMON.pw_gid)
    assert (event.actor.uid, event.actor.gid, event.actor.group_name) == (NOBODY.pw_uid, DAEMON.pw_gid, "daemon")
    event = submitted(ROOT, run_as_gid=DAEMON.pw_gid)
    assert (event.actor.uid, event.actor.gid, event.actor.role) == (0, DAEMON.pw_gid, Role.ADMINISTRATOR)


def test_nobody_else_may_also_not_an_administrator() -> None:
    for fields, code, text in (
        ({"run_as_uid": 0}, Code.INVALID_USER, "Invalid user id"),
        ({"run_as_uid": NOBODY.pw_uid}, Code.INVALID_USER, "Invalid user id"),
        ({"run_as_gid": 0}, Code.INVALID_GROUP, "Invalid group id"),
    ):
        with pytest.raises(BadRequest) as caught:
            submitted(ADMIN, **fields)
        assert (caught.value.code, str(caught.value)) == (code, text)


def test_who_is_not_known_is_refused() -> None:
    unknown = next(n for n in range(54_321, 60_000) if not _is_known(n))
    for fields in ({"run_as_uid": unknown}, {"run_as_uid": 0xFFFFFFFF}, {"run_as_uid": 0, "run_as_gid": unknown}):
        with pytest.raises(BadRequest, match="^Invalid (user|group) id"):
            submitted(ROOT, **fields)


def _is_known(number: int) -> bool:
    return any(e.pw_uid == number for e in pwd.getpwall()) or any(g.gr_gid == number for g in grp.getgrall())


def test_without_the_options_nothing_changes() -> None:
    event = submitted(ADMIN)
    assert event.actor is ADMIN and os.getuid() >= 0
