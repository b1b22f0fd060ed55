"""Usage of limits and budgets, for the Governance service.

Counters are read from the core between two steps, like those of nodes. Amounts are formatted as limits, under the name
of the limit that they count against, whether it is set or not. Without enforcement there are no counters, and only
fair-share usage is returned.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final

from ctld.core.limits import borrow
from ctld.core.limits.ledger import PPM
from ctld.core.records.decay import USAGE_ONE
from ctld.core.state.books import LimitBook, LimitLedger
from ctld.core.state.fairshare import Assoc
from ctld.core.state.spent_minutes import MINUTE, WALL, Spent
from ctld.core.state.state import ClusterState
from ctld.rpc.accounting.budgets import budgets
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated_pages
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.unread import MESSAGE_BYTES
from ctld.rpc.gate.visibility import account_visibility
from ctld.runtime.errors import BadRequest
from penstock.v1 import governance_pb2
from penstock.values.limits import texts, tres_text

#: Entries in one page: a few milliseconds of work between two turns of the loop.
PAGE: Final = 200


class CountersService:
    """The methods about budgets and counters."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ListBudgets(
        self, request: governance_pb2.ListBudgetsRequest, context: Context
    ) -> governance_pb2.ListBudgetsReply:
        """Returns the budgets of accounts with their usage."""
        runtime = self._services.runtime
        try:
            found = budgets(runtime.core.state, caller(), request.accounts, runtime.clock_us())
        except BadRequest as error:
            await refuse_as(context, error)
        return governance_pb2.ListBudgetsReply(budgets=found)

    @translated_pages
    async def ListCounters(
        self, request: governance_pb2.ListCountersRequest, context: Context
    ) -> AsyncIterator[governance_pb2.ListCountersReply]:
        """Returns the counters of associations in the order of the tree, then of QOS by name, each followed by its
        users and accounts. Of another cluster of the database only what has been charged: its jobs are not read.
        """
        view = await self._services.view(request.cluster)
        state, actor = view.state, view.actor
        found: list[governance_pb2.Counters] = []
        visibility = account_visibility(state, actor)
        if not request.what or "assoc" in request.what:
            found += [
                one
                for one in of_associations(state)
                if _is_asked(one, request) and visibility.sees_usage(one.account, one.user)
            ]
        if not request.what or "qos" in request.what:
            hides = visibility.hides_users or visibility.hides_usage
            found += [
                one
                for one in of_qos(state)
                if (not request.qos or one.qos in request.qos)
                and _is_asked(one, request)
                and (not hides or one.user in ("", actor.user_name))
            ]
        if view.without_jobs:
            for one in found:
                _leave_charges(one)
        pace = self._services.scans.pace(actor.uid)
        with self._services.unread.counted_list(actor, MESSAGE_BYTES * len(found)):
            for at in range(0, len(found), PAGE):
                if at:
                    await pace.pause()
                yield governance_pb2.ListCountersReply(counters=found[at : at + PAGE])


#: Of what has been used, what does not depend on the jobs of the moment.
CHARGES: Final = frozenset(("grptresmins", "grpwall"))


def _leave_charges(one: governance_pb2.Counters) -> None:
    for name in set(one.used) - CHARGES:
        del one.used[name]


def _is_asked(one: governance_pb2.Counters, request: governance_pb2.ListCountersRequest) -> bool:
    """Whether the request's accounts and users include it; a QOS itself is always included."""
    if one.qos and not one.user and not one.account:
        return True
    accounts, users = request.accounts, request.users
    if one.qos:
        named = one.user in users if one.user else one.account in accounts
        return named or not (accounts or users)
    return (not accounts or one.account in accounts) and (not users or one.user in users)


def of_associations(state: ClusterState) -> Iterator[governance_pb2.Counters]:
    """Encodes associations in the order of the tree."""
    ledger, spent = state.limits.ledger, _spent(state)
    stack = [state.shares.root]
    while stack:
        assoc = stack.pop()
        stack += sorted(
            assoc.children.values(), key=lambda a: (not a.user_name, a.user_name, a.account, a.partition), reverse=True
        )
        book = ledger.books.get(("assoc", assoc.assoc_id)) if ledger is not None else None
        yield governance_pb2.Counters(
            assoc_id=assoc.assoc_id,
            account=assoc.account,
            user=assoc.user_name,
            partition=assoc.partition,
            parent=assoc.parent.account if assoc.parent is not None else "",
            limits=texts(assoc.limits),
            used=_used(state, book, spent.get(assoc.assoc_id, {}), assoc) if ledger is not None else {},
            shares=assoc.shares,
            usage_raw=assoc.total / USAGE_ONE,
        )


def _spent(state: ClusterState) -> dict[int, dict[str, int]]:
    """Returns the usage of each association, including that of all below it."""
    found: dict[int, dict[str, int]] = {}
    decay, now_us = state.shares.decay, state.now_us
    for assoc in state.shares.by_id.values():
        if assoc.spent is None:
            continue
        own, at = assoc.spent.at(decay, now_us), assoc
        chain: list[Assoc] = [assoc]
        while at.parent is not None:
            at = at.parent
            chain.append(at)
        for one in chain:
            total = found.setdefault(one.assoc_id, {})
            for name, amount in own.items():
                total[name] = total.get(name, 0) + amount
    return found


def _used(state: ClusterState, book: LimitBook | None, spent: dict[str, int], assoc: Assoc | None) -> dict[str, str]:
    found = _counts(state, book or LimitBook(()), "grp", "")
    minutes = {name: amount // MINUTE for name, amount in spent.items() if name != WALL and amount >= MINUTE}
    found["grptresmins"] = tres_text(tuple(minutes.items()))
    found["grpwall"] = str(spent.get(WALL, 0) // MINUTE)
    if assoc is not None and assoc.user_name:
        found |= {f"max{name}": found[f"grp{name}"] for name in ("jobs", "jobsaccrue", "submitjobs")}
    elif assoc is not None and state.limits.lending.is_on:
        standing = zip(("borrow", "lend"), borrow.standing(state, assoc), strict=True)
        found |= {name: tres_text(amounts) for name, amounts in standing if amounts}
    return found


def _counts(state: ClusterState, book: LimitBook, before: str, after: str) -> dict[str, str]:
    left = {name: book.run_left(name, state.now_us) // (60 * PPM) for name in book.tres}
    return {
        f"{before}jobs{after}": str(book.jobs),
        f"{before}jobsaccrue{after}": str(book.accruing),
        f"{before}submitjobs{after}": str(book.submitted),
        f"{before}tres{after}": tres_text(tuple(book.tres.items())),
        f"{before}tresrunmins{after}": tres_text(tuple(left.items())),
    }


def of_qos(state: ClusterState) -> Iterator[governance_pb2.Counters]:
    """Encodes QOS by name, each followed by its accounts and users."""
    ledger = state.limits.ledger
    inside = _inside(ledger) if ledger is not None else {}
    for name, qos in sorted(state.qos.items()):
        book = ledger.books.get(("qos", name)) if ledger is not None else None
        spent = book.spent if book is not None and book.spent is not None else Spent()
        amounts = spent.at(state.shares.decay, state.now_us)
        yield governance_pb2.Counters(
            qos=name,
            limits=texts(qos.limits),
            used=_used(state, book, amounts, None) if ledger is not None else {},
            usage_raw=amounts.get("billing", 0) / USAGE_ONE,
            users_with_jobs=sorted(str(one.key[2]) for one in inside.get(name, ()) if one.key[0] == "user"),
        )
        for one in sorted(inside.get(name, ()), key=lambda one: str(one.key)):
            kind, name_in = str(one.key[0]), str(one.key[2])
            yield governance_pb2.Counters(
                qos=name,
                user=name_in if kind == "user" else "",
                account=name_in if kind == "account" else "",
                used=_counts(state, one, "max", f"per{kind}"),
            )


def _inside(ledger: LimitLedger) -> dict[str, list[LimitBook]]:
    """Returns by QOS the non-empty books of users and accounts in it."""
    found: dict[str, list[LimitBook]] = {}
    for key, book in ledger.books.items():
        if key[0] in ("user", "account") and not book.is_empty():
            found.setdefault(str(key[1]), []).append(book)
    return found
