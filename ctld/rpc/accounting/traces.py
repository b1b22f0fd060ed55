"""Transactions and the audit log, read in a thread through a connection of their own, for the Governance service.

ListAudit returns with its last page the head of the chain in the core, so that a truncated table is detected. That page
is read after the last record is committed, so the head is never ahead of the records that were sent.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from accounting.dbrow import DbRow
from accounting.traces import AuditQuestion, TracesUnavailable, TxnQuestion
from accounting.traces import Traces as Reader
from ctld.core.records.audit import GENESIS
from ctld.core.records.events import Role
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated_pages
from ctld.rpc.gate.services import Services
from ctld.runtime.errors import BadRequest
from penstock.v1 import governance_pb2
from penstock.values.refusals import TEXT, Code

Q = TypeVar("Q")
A = TypeVar("A")


class TraceService:
    """The methods about transactions and the audit log."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _traces(self) -> Reader:
        return self._services.traces

    @translated_pages
    async def ListTransactions(
        self, request: governance_pb2.ListTransactionsRequest, context: Context
    ) -> AsyncIterator[governance_pb2.ListTransactionsReply]:
        """Returns the transactions that match, by id, in pages."""
        view = await self._services.view(request.cluster)
        if view.actor.role < Role.OPERATOR:  # there; the gate has judged the role here
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        asked = TxnQuestion(
            request.start_at_us, request.end_at_us, tuple(request.actions), tuple(request.actors),
            tuple(request.accounts), tuple(request.users), tuple(request.ids),
        )  # fmt: skip
        cluster = view.state.config.cluster_name
        async for page in self._each(view.traces.transactions(asked), context):
            yield governance_pb2.ListTransactionsReply(transactions=[_transaction(row, cluster) for row in page])

    async def ListAudit(
        self, request: governance_pb2.ListAuditRequest, context: Context
    ) -> AsyncIterator[governance_pb2.ListAuditReply]:
        """Returns the records that match, by id, in pages; the last page has the head of the chain."""
        asked = AuditQuestion(
            request.from_id, request.start_at_us, request.end_at_us, tuple(request.users), request.records_max
        )
        head = self._services.audit_head  # committed: later reads include it
        first = True
        async for page in self._each(self._traces.audit(asked), context):
            reply = governance_pb2.ListAuditReply(
                records=[governance_pb2.AuditInfo(id=r.audit_id, record=r.record, hash=r.hash) for r in page]
            )
            if first:
                reply.previous_hash = await self._in_turn(self._hash_before, page[0].audit_id)
                first = False
            yield reply
        yield governance_pb2.ListAuditReply(head_id=head.audit_id, head_hash=head.hash)

    def _hash_before(self, audit_id: int) -> str:
        return self._traces.hash_of(audit_id - 1) if audit_id > 1 else GENESIS

    async def _in_turn(self, function: Callable[[Q], A], argument: Q) -> A:
        return await self._services.trace_threads.turn(caller().uid, function, lambda: argument)

    async def _each(self, pages: Iterator[list[DbRow]], context: Context) -> AsyncIterator[list[DbRow]]:
        try:
            with self._services.trace_threads.question(caller().uid):
                while (page := await self._in_turn(_next, pages)) is not None:
                    yield page
        except BadRequest as error:
            await refuse_as(context, error)
        except TracesUnavailable as error:
            await refuse_as(context, BadRequest(Code.INTERNAL, f"{TEXT[Code.INTERNAL]}: {error}"))


def _next(pages: Iterator[list[DbRow]]) -> list[DbRow] | None:
    return next(pages, None)


def _transaction(row: DbRow, cluster: str) -> governance_pb2.TransactionInfo:
    return governance_pb2.TransactionInfo(
        id=row.txn_id,
        at_us=row.at_us,
        action=row.action,
        actor=row.actor,
        where=row.whom,
        info=row.info,
        accounts=[word for word in row.accounts.split(",") if word],
        users=[word for word in row.users.split(",") if word],
        cluster=cluster,
    )
