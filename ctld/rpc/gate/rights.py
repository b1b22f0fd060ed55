"""Access control of methods: one table, which the gate (entry.py) enforces before any handler runs.

The table is about methods. Rights to a particular job are checked by the core. A method without an entry cannot be
served: `check_complete` stops the start, and the gate refuses it in any case.

A refusal is UNAUTHENTICATED for an unauthenticated caller and PERMISSION_DENIED for one without the right, with Slurm's
message and the refusal's number in the trailer `penstock-code`. Each one is logged; tokens never are.
"""

import logging
from collections.abc import Iterable
from enum import Enum, auto

# Any: what a handler takes, bytes or a stream of them, follows from its kind
from typing import TYPE_CHECKING, Final, NoReturn

import grpc
import grpc.aio
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

from ctld.core.records.events import Role
from ctld.rpc.gate.auth import Authenticator, Peer, Reach, calling_node, current_peer, set_peer
from ctld.rpc.gate.context import Context
from penstock.calls import CODE_KEY
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[object, object]

log = logging.getLogger("penstock.ctld")


class LeastRole(Enum):
    """The least role that a caller must have."""

    LOOK = auto()  # a user; a read-only method about public data
    STEPS = auto()  # a user; about their own steps and allocations
    JOBS = auto()  # a user; about their own jobs and what belongs to them
    USER = auto()
    OPERATOR = auto()
    ADMINISTRATOR = auto()
    OWN_NODE = auto()  # administrators, and root on a node for that node: which changes, checked by the method
    NODE = auto()
    PROOF = auto()  # unauthenticated callers; the proof is in the request: a join token, or a certificate's signature


CONTROLLER: Final = "/penstock.v1.Controller/"

RIGHTS: Final[dict[str, LeastRole]] = {
    CONTROLLER + "Ping": LeastRole.LOOK,
    CONTROLLER + "SubmitJob": LeastRole.JOBS,
    CONTROLLER + "AwaitJob": LeastRole.LOOK,
    CONTROLLER + "ListJobs": LeastRole.LOOK,
    CONTROLLER + "ListNodes": LeastRole.LOOK,
    CONTROLLER + "ListGpuReadings": LeastRole.LOOK,
    CONTROLLER + "ListPartitions": LeastRole.LOOK,
    CONTROLLER + "ShowConfig": LeastRole.LOOK,
    CONTROLLER + "CancelJobs": LeastRole.JOBS,
    CONTROLLER + "ControlJobs": LeastRole.JOBS,
    CONTROLLER + "UpdateJobs": LeastRole.JOBS,
    CONTROLLER + "GetBatchScript": LeastRole.JOBS,
    CONTROLLER + "Story": LeastRole.LOOK,
    CONTROLLER + "ListReservations": LeastRole.LOOK,
    CONTROLLER + "ListLicenses": LeastRole.LOOK,
    CONTROLLER + "ShowTopology": LeastRole.LOOK,
    CONTROLLER + "DeleteReservation": LeastRole.USER,  # operators, and users of a USER_DELETE one: checked by the core
    CONTROLLER + "CreateReservation": LeastRole.OPERATOR,
    CONTROLLER + "UpdateReservation": LeastRole.OPERATOR,
    CONTROLLER + "ListQos": LeastRole.LOOK,
    CONTROLLER + "ChangeQos": LeastRole.OPERATOR,
    CONTROLLER + "UpdateNodes": LeastRole.OWN_NODE,
    CONTROLLER + "UpdatePartition": LeastRole.ADMINISTRATOR,
    CONTROLLER + "Reconfigure": LeastRole.ADMINISTRATOR,
    CONTROLLER + "Shutdown": LeastRole.ADMINISTRATOR,
    CONTROLLER + "CreateNodeToken": LeastRole.ADMINISTRATOR,
    CONTROLLER + "JoinNode": LeastRole.PROOF,
    CONTROLLER + "RenewCertificate": LeastRole.PROOF,
    CONTROLLER + "CreatePartition": LeastRole.ADMINISTRATOR,
    CONTROLLER + "DeletePartition": LeastRole.ADMINISTRATOR,
    CONTROLLER + "CreateNodes": LeastRole.ADMINISTRATOR,
    CONTROLLER + "DeleteNodes": LeastRole.ADMINISTRATOR,
    CONTROLLER + "SetController": LeastRole.ADMINISTRATOR,
    CONTROLLER + "IssueToken": LeastRole.USER,  # for others: administrators, checked by the handler
    CONTROLLER + "RevokeTokens": LeastRole.USER,  # of others: administrators, checked by the core
    CONTROLLER + "CreatePersonalToken": LeastRole.USER,
    CONTROLLER + "ListPersonalTokens": LeastRole.USER,  # of others: administrators, checked by the handler
    CONTROLLER + "RevokePersonalToken": LeastRole.USER,  # of others: administrators, checked by the core
    CONTROLLER + "RenderConfig": LeastRole.LOOK,
    CONTROLLER + "ShowController": LeastRole.ADMINISTRATOR,  # it has the database's address
    "/penstock.v1.Accounting/ListRecords": LeastRole.LOOK,
    "/penstock.v1.Accounting/ListProfiles": LeastRole.LOOK,
    "/penstock.v1.Shares/ListAssociations": LeastRole.LOOK,
    "/penstock.v1.Shares/ListPriorities": LeastRole.LOOK,
    "/penstock.v1.Shares/ChangeAccounts": LeastRole.USER,  # coordinators, for what is below them: checked by the core
    "/penstock.v1.Governance/ChangeMany": LeastRole.USER,  # coordinators may change what is below them: checked by the core
    "/penstock.v1.Governance/ListWckeys": LeastRole.LOOK,
    "/penstock.v1.Governance/ListTres": LeastRole.LOOK,
    "/penstock.v1.Governance/ListClusters": LeastRole.LOOK,
    "/penstock.v1.Governance/ListResources": LeastRole.LOOK,
    "/penstock.v1.Governance/ListCounters": LeastRole.LOOK,
    "/penstock.v1.Governance/ListBudgets": LeastRole.LOOK,
    "/penstock.v1.Governance/ListEvents": LeastRole.LOOK,
    "/penstock.v1.Governance/ListTransactions": LeastRole.OPERATOR,
    "/penstock.v1.Governance/ListAudit": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Governance/ListRunaway": LeastRole.OPERATOR,
    "/penstock.v1.Governance/FixRunaway": LeastRole.OPERATOR,
    "/penstock.v1.Governance/ModifyRecords": LeastRole.USER,  # for other users' jobs: operators, checked by the handler
    "/penstock.v1.Governance/Report": LeastRole.LOOK,
    "/penstock.v1.Governance/Purge": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Governance/LoadArchive": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Explain/WhyJob": LeastRole.LOOK,
    "/penstock.v1.Explain/Fits": LeastRole.LOOK,
    "/penstock.v1.Explain/ShowPlanChange": LeastRole.LOOK,
    "/penstock.v1.Explain/Diagnostics": LeastRole.LOOK,
    "/penstock.v1.Explain/ResetDiagnostics": LeastRole.OPERATOR,
    "/penstock.v1.Steps/AwaitAllocation": LeastRole.STEPS,
    "/penstock.v1.Steps/EndAllocation": LeastRole.STEPS,
    "/penstock.v1.Steps/CreateStep": LeastRole.STEPS,
    "/penstock.v1.Steps/AwaitStep": LeastRole.STEPS,
    "/penstock.v1.Steps/ListSteps": LeastRole.LOOK,
    "/penstock.v1.Steps/AttachStep": LeastRole.STEPS,
    "/penstock.v1.Steps/OpenOutput": LeastRole.STEPS,
    "/penstock.v1.Steps/NotifyJob": LeastRole.STEPS,
    "/penstock.v1.Periodic/GetCrontab": LeastRole.JOBS,  # for other users: administrators, checked by the method
    "/penstock.v1.Periodic/UpdateCrontab": LeastRole.JOBS,
    "/penstock.v1.Periodic/SetTrigger": LeastRole.USER,  # with allow_user_triggers: checked by the core
    "/penstock.v1.Periodic/ListTriggers": LeastRole.LOOK,
    "/penstock.v1.Periodic/ClearTriggers": LeastRole.USER,  # for other users: administrators, checked by the core
    "/penstock.v1.Watch/Watch": LeastRole.LOOK,
    "/penstock.v1.NodeLink/Connect": LeastRole.NODE,
}

#: Unary methods that may wait, for an event or for their turn at the planner or the records, for minutes or days: their
#: callers are authenticated again before the answer, as those of streams are before each message. Others tell what they
#: have done in any case.
WAITING: Final = frozenset(name for name, least in RIGHTS.items() if least is LeastRole.LOOK) | {
    f"/penstock.v1.Steps/{name}" for name in ("AwaitAllocation", "AwaitStep", "CreateStep")
}

_LEAST_ROLE: Final = {
    LeastRole.LOOK: Role.USER,
    LeastRole.STEPS: Role.USER,
    LeastRole.JOBS: Role.USER,
    LeastRole.USER: Role.USER,
    LeastRole.OPERATOR: Role.OPERATOR,
    LeastRole.ADMINISTRATOR: Role.ADMINISTRATOR,
    LeastRole.OWN_NODE: Role.ADMINISTRATOR,
}
#: What root on a node may call without a job there: commands need it to change the state of a node.
_NODE_METHODS: Final = frozenset(CONTROLLER + name for name in ("Ping", "ListNodes", "ListPartitions"))

#: These read committed jobs, nodes and partitions, which no change of accounting touches before it is whole.
_SETTLED: Final = frozenset(
    CONTROLLER + name for name in ("Ping", "ListJobs", "ListNodes", "ListGpuReadings", "ListPartitions")
)

_LEAST_REACH: Final = {LeastRole.LOOK: Reach.LOOK, LeastRole.STEPS: Reach.STEPS, LeastRole.JOBS: Reach.JOBS}
#: What the token of a session may call: to reach it, and to have the next token. Both look at the job.
_SESSION_METHODS: Final = frozenset(("/penstock.v1.Steps/AttachStep", CONTROLLER + "IssueToken"))
_OF_SESSION: Final = "the token is that of a session, and reaches nothing else"
_FROM_AFAR: Final = (
    "nodes and login hosts do not speak for root, SlurmUser, operators and administrators: "
    "do it on the controller's machine, or as another user"
)


def check_complete(descriptors: Iterable[FileDescriptor | ServiceDescriptor]) -> None:
    """Checks that every method of these services (or of these files' services) has an entry, and that every entry has a
    method."""
    services: list[ServiceDescriptor] = []
    for descriptor in descriptors:
        services += [descriptor] if isinstance(descriptor, ServiceDescriptor) else descriptor.services_by_name.values()
    methods = {f"/{service.full_name}/{name}" for service in services for name in service.methods_by_name}
    prefixes = tuple(f"/{service.full_name}/" for service in services)
    entries = {name for name in RIGHTS if name.startswith(prefixes)}
    if missing := sorted(methods - entries):
        raise RuntimeError(f"there is no right for {', '.join(missing)}: add it to RIGHTS")
    if stale := sorted(entries - methods):
        raise RuntimeError(f"RIGHTS names methods that do not exist: {', '.join(stale)}")


def is_settled(method: str, config: Config) -> bool:
    """Whether a method reads nothing that a change of accounting in progress touches: with PrivateData=jobs, listings
    depend on who coordinates which account."""
    return method in _SETTLED and "jobs" not in config.private_data


def judge(method: str, peer: Peer) -> tuple[grpc.StatusCode, str] | None:
    """Returns None when this peer may call the method, else the status and the text of the refusal."""
    who = RIGHTS.get(method)
    if who is None:
        return grpc.StatusCode.PERMISSION_DENIED, "the method has no entry in the table of rights"
    if who is LeastRole.PROOF:
        return None
    if peer.actor is None and peer.node is None:
        status = grpc.StatusCode.UNAVAILABLE if peer.passing else grpc.StatusCode.UNAUTHENTICATED
        return status, peer.why_nobody
    if who is LeastRole.NODE:
        return None if peer.node is not None else (grpc.StatusCode.PERMISSION_DENIED, "only node daemons may do this")
    if peer.actor is None:
        return grpc.StatusCode.PERMISSION_DENIED, "a node daemon may not do this"
    if peer.session_job_id and method not in _SESSION_METHODS:
        return grpc.StatusCode.PERMISSION_DENIED, _OF_SESSION
    if who is LeastRole.OWN_NODE and peer.root_of:
        return None
    if peer.reach is Reach.NODE:
        text = f"root has no job on node {peer.root_of}, and may only drain this node"
        return None if method in _NODE_METHODS else (grpc.StatusCode.PERMISSION_DENIED, text)
    if peer.reach < _LEAST_REACH.get(who, Reach.ALL):
        return grpc.StatusCode.PERMISSION_DENIED, peer.why_less or _FROM_AFAR
    least = _LEAST_ROLE[who]
    if peer.actor.role < least:
        return grpc.StatusCode.PERMISSION_DENIED, f"only {'an' if least else 'a'} {least.name.lower()} may do this"
    return None


async def refuse(context: Context, status: grpc.StatusCode, code: Code, text: str) -> NoReturn:
    """Ends the call with a refusal: the status for gRPC, the number and the text for the user."""
    await context.abort(status, text, ((CODE_KEY, str(int(code))),))
    raise AssertionError("abort does not return")


async def require_again(context: Context, method: str, authenticator: Authenticator) -> Peer:
    """Returns the caller of a call that has waited, as of now; ends the call if they may not make it any more."""
    peer = await authenticator.again(current_peer())
    refusal = judge(method, peer)
    if refusal is not None:
        status, explanation = refusal
        await refuse(context, status, Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")
    set_peer(peer)
    return peer


async def admit_again(context: Context, method: str, authenticator: Authenticator) -> None:
    """Ends a call that has waited if what proved its caller does not hold any more. Only a token's proof can end: the
    kernel's word stands."""
    if current_peer().grounds is not None:
        await require_again(context, method, authenticator)


async def require_node(context: Context, claimed: str) -> str:
    """Returns the calling node's name, if it is the one that it claims to be."""
    node = calling_node()
    if claimed != node:
        text = f"{TEXT[Code.ACCESS_DENIED]}: the certificate is for node {node}"
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED, text)
    return node
