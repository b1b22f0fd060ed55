"""--uid and --gid: submits a job for another user.

Only root and SlurmUser may; others are refused with Slurm's message. The role is checked and not only the uid, since it
depends on the host that asserts the uid (auth.py). Administrators by PenstockAdministrators may not: to become another
user is reserved for root. The job belongs to the other user completely, as if submitted by that user, whose rights,
accounts and limits count. Only root may set a group that the user is not in.
"""

from typing import Final

import msgspec

from ctld.core.records.events import Actor, Role, SubmitJob
from ctld.rpc.gate.auth import UserDirectory
from ctld.rpc.gate.users import UID_MAX
from ctld.runtime.errors import BadRequest
from penstock.values.refusals import TEXT, Code

ROOT: Final = 0


async def submitted_for(event: SubmitJob, slurm_user: str, directory: UserDirectory) -> SubmitJob:
    """Returns the submission as that of the other user. Raises BadRequest."""
    uid = event.job.run_as_uid
    gid = event.job.run_as_gid
    actor = event.actor
    if uid is None and gid is None:
        return event
    if actor.role is not Role.ADMINISTRATOR or (actor.uid != ROOT and actor.user_name != slurm_user):
        code = Code.INVALID_USER if uid is not None else Code.INVALID_GROUP
        raise BadRequest(code, TEXT[code])
    job = msgspec.structs.replace(event.job, run_as_uid=None, run_as_gid=None)
    return msgspec.structs.replace(event, job=job, actor=await _other(actor, uid, gid, directory))


async def _other(actor: Actor, uid: int | None, gid: int | None, directory: UserDirectory) -> Actor:
    uid = actor.uid if uid is None else uid
    if uid > UID_MAX or (gid is not None and gid > UID_MAX):
        raise BadRequest(Code.INVALID_USER, TEXT[Code.INVALID_USER])
    user = await directory.find(uid, 0 if gid is None else gid)
    if user.name == str(uid):
        raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: uid {uid} is not known to the controller")
    gid = user.gid if gid is None else gid
    name = user.group_names.get(gid) or await directory.group_name(gid, actor.uid)
    if name == str(gid):
        raise BadRequest(Code.INVALID_GROUP, f"{TEXT[Code.INVALID_GROUP]}: gid {gid} is not known to the controller")
    role = actor.role if uid == actor.uid else Role.USER
    return Actor(
        uid, gid, user.name, name, tuple(user.group_names.values()), role, by=actor if uid != actor.uid else None
    )
