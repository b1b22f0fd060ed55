"""--uid and --gid: a job that its submitter queues for somebody else.

Only root and SlurmUser may, by the uid that authentication has given; anyone else is refused in Slurm's words, also who
is an administrator by PenstockAdministrators: to become another user is root's. The job is the other user's in all, as if
he had submitted it: his rights, accounts and limits count. A group that is not his is root's to give.
"""

from typing import Final

import msgspec

from ctld.core.events import Actor, Role, SubmitJob
from ctld.rpc.auth import UserDirectory, group_name
from ctld.rpc.refusals import BadRequest
from ctld.rpc.users import UID_MAX
from penstock.values.refusals import TEXT, Code

ROOT: Final = 0


async def submitted_for(event: SubmitJob, slurm_user: str, directory: UserDirectory) -> SubmitJob:
    """The submission as that of whom it is for. Raises BadRequest."""
    uid, gid, actor = event.job.run_as_uid, event.job.run_as_gid, event.actor
    if uid is None and gid is None:
        return event
    if actor.uid != ROOT and actor.user_name != slurm_user:
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
    name = user.group_names.get(gid) or group_name(gid)
    if name == str(gid):
        raise BadRequest(Code.INVALID_GROUP, f"{TEXT[Code.INVALID_GROUP]}: gid {gid} is not known to the controller")
    role = actor.role if uid == actor.uid else Role.USER
    return Actor(
        uid, gid, user.name, name, tuple(user.group_names.values()), role, by=actor if uid != actor.uid else None
    )
