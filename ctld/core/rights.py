"""Who may do what to which object: one function for jobs, used by every handler.

Which roles may call a method at all stands in the table of the RPC layer; here the object decides. Rules as Slurm's
(user_permissions): a user may touch his own jobs, operators and administrators all jobs; only they may raise a
priority, release what an administrator holds, or requeue others' jobs. Node and partition changes are the
administrator's.
"""

from ctld.core.effects import Refused
from ctld.core.events import Actor, Role
from ctld.core.model import Job
from ctld.core.state import ClusterState
from penstock.values.refusals import Code


def may_touch(actor: Actor, job: Job) -> bool:
    """True when the actor may change, signal or cancel the job."""
    return actor.uid == job.user_id or actor.role >= Role.OPERATOR


def has_job(state: ClusterState, node: str, uid: int) -> bool:
    """True when a job of that user holds something on that node now, so that the node may speak for him."""
    found = state.nodes.get(node)
    return found is not None and any(state.jobs[job_id].user_id == uid for job_id in found.jobs)


def require_role(actor: Actor, role: Role, what: str) -> None:
    """Raise Refused unless the actor has the role."""
    if actor.role < role:
        raise Refused(Code.ACCESS_DENIED, f"{what} needs the role {role.name.lower()}")
