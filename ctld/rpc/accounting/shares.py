"""The Shares service: accounts and users with their usage, priority factors, and changes of accounts.

Associations and numbers are read from the core between two steps, like those of nodes: decayed usage is derived and
belongs to no commit. The list of jobs comes from the committed snapshot, as in all listings.
"""

import dataclasses
import math
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final

from ctld.core.demand import factors
from ctld.core.queue import associations as assocs
from ctld.core.queue import priority
from ctld.core.queue.rights import level_of
from ctld.core.records.accounting_rows import AccountRow, AssocRow, UserRow
from ctld.core.records.decay import USAGE_ONE
from ctld.core.records.effects import Changed, Refusal
from ctld.core.records.events import Role
from ctld.core.records.job import Job, JobRow
from ctld.core.records.node import Partition
from ctld.core.state.fairshare import LEVEL_BITS, LEVEL_MAX, Assoc
from ctld.core.state.state import ClusterState
from ctld.rpc.accounting.changes import accounts_event, changed_reply
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated_pages
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.unread import MESSAGE_BYTES, POINTER_BYTES
from ctld.rpc.gate.users import job_filter
from ctld.rpc.gate.visibility import account_visibility, job_visibility
from ctld.rpc.jobs.listing import select_rows
from ctld.runtime.errors import BadRequest, NotTaken
from penstock.v1 import shares_pb2
from penstock.values.fields import made_of
from penstock.values.limits import texts
from penstock.values.states import JobState
from penstock.values.weights import WEIGHT_ONE, Weight

#: Entries in one page: a few milliseconds of work between two turns of the loop.
PAGE_ASSOCS: Final = 500
PAGE_JOBS: Final = 200
#: Weights with which factors are fractions of 1 with seven digits, as sprio -n shows them.
_FINE: Final = 10**7


class SharesService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime
        self._names = services.names

    @translated_pages
    async def ListAssociations(
        self, request: shares_pb2.ListAssociationsRequest, context: Context
    ) -> AsyncIterator[shares_pb2.ListAssociationsReply]:
        """Returns the whole tree, with usage and ranks as of the last calculation."""
        view = await self._services.view(request.cluster)
        state = view.state
        config, tree = state.config, state.shares
        fair_tree = "NO_FAIR_TREE" not in config.priority_flags
        visibility = account_visibility(state, view.actor)
        found = list(associations(state, fair_tree))
        if request.with_deleted:
            found += [_deleted(row) for _, row in sorted(tree.gone.items())]
        messages = [message for message in found if visibility.sees_usage(message.account, message.user)]
        first = shares_pb2.ListAssociationsReply(
            cluster=config.cluster_name,
            multifactor=config.is_multifactor(),
            fair_tree=fair_tree,
            controller_host=view.host,
            controller_port=view.port,
            without_jobs=view.without_jobs,
            accounts=[
                shares_pb2.AccountInfo(**row._asdict())
                for row in _accounts(state, request)
                if visibility.sees_account(row.name)
            ],
            users=[
                _user(state, name)
                for name in _people(state, request)
                if visibility.sees_user(name, accounts_of(state, name))
            ],
            associations=messages[:PAGE_ASSOCS],
        )
        pace = self._services.scans.pace(caller().uid)
        with self._services.unread.counted_list(caller(), MESSAGE_BYTES * len(messages)):
            yield first
            for at in range(PAGE_ASSOCS, len(messages), PAGE_ASSOCS):
                await pace.pause()
                yield shares_pb2.ListAssociationsReply(associations=messages[at : at + PAGE_ASSOCS])

    @translated_pages
    async def ListPriorities(
        self, request: shares_pb2.ListPrioritiesRequest, context: Context
    ) -> AsyncIterator[shares_pb2.ListPrioritiesReply]:
        """Returns the components of pending jobs' priorities, in pages."""
        runtime = self._runtime
        which = await job_filter(request.filter, self._names)
        which = job_visibility(runtime.core.state, caller()).narrow(which)
        async with self._services.scans.one(caller().uid) as pace:
            rows = await select_rows(runtime.snapshot, which, False, pace)
        rows = [row for row in rows if row.state is JobState.PENDING and not row.hold]
        yield shares_pb2.ListPrioritiesReply(weights=weights(runtime.core.state))
        fine = _fine_scale(runtime.core.state) if request.normalized else None
        pace = self._services.scans.pace(caller().uid)
        await pace.begin()
        with self._services.unread.counted_list(caller(), POINTER_BYTES * len(rows)):
            for at in range(0, len(rows), PAGE_JOBS):
                found = [
                    m for row in rows[at : at + PAGE_JOBS] for m in _priorities(runtime.core.state, row, request, fine)
                ]
                pace.end()
                yield shares_pb2.ListPrioritiesReply(jobs=found)
                await pace.pause()

    async def ChangeAccounts(
        self, request: shares_pb2.ChangeAccountsRequest, context: Context
    ) -> shares_pb2.ChangeAccountsReply:
        """sacctmgr add, modify, delete."""
        try:
            event = accounts_event(caller(), request, self._runtime.new_reply_to())
            body: Changed | Refusal = await self._runtime.ask(event)
        except (BadRequest, NotTaken) as error:
            await refuse_as(context, error)
        if isinstance(body, Refusal):
            await refuse_as(context, body)
        return changed_reply(body)


def _accounts(state: ClusterState, request: shares_pb2.ListAssociationsRequest) -> list[AccountRow]:
    tree = state.shares
    rows = [tree.about[name] for name in sorted(tree.accounts) if name in tree.about]
    if request.with_deleted:
        rows += [row._replace(deleted=True) for _, row in sorted(tree.gone_accounts.items())]
    return rows


def _people(state: ClusterState, request: shares_pb2.ListAssociationsRequest) -> list[str]:
    """Returns the users with a record, or an implicitly created association."""
    tree = state.shares
    return sorted({**tree.people, **tree.by_user, **(tree.gone_people if request.with_deleted else {})})


#: Slurm's names of AdminLevel.
_LEVELS: Final = {Role.USER: "None", Role.OPERATOR: "Operator", Role.ADMINISTRATOR: "Administrator"}


def accounts_of(state: ClusterState, user: str) -> Iterator[str]:
    """Returns the accounts in which a user has associations."""
    return (assoc.account for assoc in state.shares.by_user.get(user, ()))


def _user(state: ClusterState, name: str) -> shares_pb2.UserInfo:
    tree = state.shares
    row = tree.people.get(name, UserRow(name, ""))
    return shares_pb2.UserInfo(
        name=name,
        default_account=row.default_account,
        admin_level=_LEVELS[level_of(state, name)],
        default_wckey=row.default_wckey,
        coordinator_of=sorted(tree.coordinator_of.get(name, ())),
        deleted=name in tree.gone_people,
    )


# ---- associations ------------------------------------------------------------------------------------------------


def associations(state: ClusterState, fair_tree: bool) -> Iterator[shares_pb2.Association]:
    """Builds messages in the order of the tree: users by name, then accounts by name."""
    root = state.shares.root
    everything = root.total
    stack = [(root, 0, 1.0, 1.0)]
    while stack:
        assoc, depth, above_shares, above_usage = stack.pop()
        shares, effective = _shares_and_usage(assoc, fair_tree, above_shares, above_usage, everything)
        yield _association(assoc, depth, shares, effective, everything)
        below = sorted(assoc.children.values(), key=_order, reverse=True)
        stack += [(child, depth + 1, shares, effective) for child in below]


def _order(assoc: Assoc) -> tuple[bool, str, str, str]:
    return not assoc.user_name, assoc.user_name, assoc.partition, assoc.account


def _shares_and_usage(
    assoc: Assoc, fair_tree: bool, above_shares: float, above_usage: float, everything: int
) -> tuple[float, float]:
    """Returns normalised shares and effective usage for display: decisions use whole numbers (fairshare.py)."""
    if assoc.parent is None:
        return (0.0 if fair_tree else 1.0), 1.0 if everything or fair_tree else 0.0
    if assoc.shares < 0:
        return above_shares, above_usage
    part = assoc.shares / assoc.level_shares
    if fair_tree:
        return part, assoc.total / assoc.level_usage if assoc.level_usage else 0.0
    own = assoc.total / everything if everything else 0.0
    drawn = 0.0 if assoc.parent.parent is None else (above_usage - own) * part
    return above_shares * part, own + drawn


def _association(
    assoc: Assoc, depth: int, shares: float, effective: float, everything: int
) -> shares_pb2.Association:  # fmt: skip
    above, below = assoc.factor
    return shares_pb2.Association(
        id=assoc.assoc_id,
        account=assoc.account,
        user=assoc.user_name,
        partition=assoc.partition,
        limits=texts(assoc.limits),
        qos=assocs.qos_of(assoc),
        own_qos=assoc.qos,
        budget=assoc.budget,
        default_qos=assoc.default_qos,
        parent=assoc.parent.account if assoc.parent is not None else "",
        shares=assoc.shares,
        priority=assoc.priority,
        depth=depth,
        norm_shares=shares,
        usage_s=assoc.total // USAGE_ONE,
        norm_usage=assoc.total / everything if everything else 0.0,
        effective_usage=effective,
        fair_share=above / below if assoc.user_name else 0.0,
        level_fs=math.inf if assoc.level >= LEVEL_MAX else assoc.level / 2.0**LEVEL_BITS,
        made_by_itself=assoc.made_by_itself,
    )


def _deleted(row: AssocRow) -> shares_pb2.Association:
    return shares_pb2.Association(
        id=row.assoc_id,
        account=row.account,
        user=row.user_name,
        partition=row.partition,
        parent=row.parent,
        shares=row.shares,
        priority=row.priority,
        limits=texts(row.limits),
        own_qos=row.qos,
        qos=row.qos,
        default_qos=row.default_qos,
        budget=row.budget,
        deleted=True,
    )


# ---- priorities --------------------------------------------------------------------------------------------------


def weights(state: ClusterState) -> shares_pb2.PriorityWeights:
    """Returns PriorityWeight*."""
    config = state.config
    return shares_pb2.PriorityWeights(
        multifactor=config.is_multifactor(),
        age=config.priority_weight_age,
        assoc=config.priority_weight_assoc,
        fair_share=config.priority_weight_fair_share,
        job_size=config.priority_weight_job_size,
        partition=config.priority_weight_partition,
        qos=config.priority_weight_qos,
        tres=[weight.tres for weight in config.priority_weight_tres],
        tres_weights=[weight.micro / WEIGHT_ONE for weight in config.priority_weight_tres],
    )


def _priorities(
    state: ClusterState, row: JobRow, request: shares_pb2.ListPrioritiesRequest, fine: factors.Scale | None
) -> Iterator[shares_pb2.JobPriority]:
    """Builds one message for each partition that the job may run in."""
    job = state.jobs.look(row.job_id)
    if job is None:
        return
    names = set(request.filter.partitions)
    for name in job.request.partitions:
        partition = state.partitions.get(name)
        if partition is not None and (not names or name in names):
            yield _priority(state, row, job, partition, fine)


def _priority(
    state: ClusterState, row: JobRow, job: Job, partition: Partition, fine: factors.Scale | None
) -> shares_pb2.JobPriority:
    message = shares_pb2.JobPriority(
        job_id=row.job_id,
        array_job_id=row.array_job_id,
        array_task_id=row.array_task_id,
        array_tasks=row.array_tasks.format() if row.array_tasks is not None else "",
        user_name=row.user_name,
        account=row.request.account,
        partition=partition.name,
        qos=row.request.qos,
        priority=priority.in_partition(state, job, partition),
        nice=row.request.nice,
    )
    found = priority.explain(state, job, partition)
    if found is None:
        return message
    age, assoc, fair, points = found
    message.age = age
    message.assoc = assoc
    message.fair_share = fair
    message.job_size = points.size
    message.partition_factor = points.partition
    message.qos_factor = points.qos
    message.site = points.site
    message.tres.extend(points.tres)
    normal = priority.explain(state, job, partition, fine) if fine is not None else None
    if normal is not None:
        message.normalized.CopyFrom(_normalized(*normal))
    return message


_WEIGHTS: Final = (
    "priority_weight_age", "priority_weight_assoc", "priority_weight_fair_share", "priority_weight_job_size",
    "priority_weight_partition", "priority_weight_qos",
)  # fmt: skip


def _fine_scale(state: ClusterState) -> factors.Scale:
    """Returns the scale with a fine weight. A factor without weight is not computed, as in Slurm."""
    config = state.config
    fine = {name: _FINE for name in _WEIGHTS if getattr(config, name)}
    tres = tuple(Weight(weight.tres, _FINE * WEIGHT_ONE, weight.unit) for weight in config.priority_weight_tres)
    changed = made_of(partial(dataclasses.replace, config), {**fine, "priority_weight_tres": tres})
    return factors.scale_of(changed, state.node_list, state.qos)


def _normalized(age: int, assoc: int, fair: int, points: factors.Points) -> shares_pb2.NormalizedFactors:
    return shares_pb2.NormalizedFactors(
        age=age / _FINE,
        assoc=assoc / _FINE,
        fair_share=fair / _FINE,
        job_size=points.size / _FINE,
        partition=points.partition / _FINE,
        qos=points.qos / _FINE,
        tres=[number / _FINE for number in points.tres],
    )
