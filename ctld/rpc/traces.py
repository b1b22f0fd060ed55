"""Of the Governance service: transactions and the audit log, read in a thread through a connection of their own.

ListAudit says with its last page where the chain ends, as the core knows it: a table that has lost its end is found out.
That page is asked for after a record that comes last is committed, so the head is never ahead of the records that were sent.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from accounting.traces import AuditQuestion, TracesUnavailable, TxnQuestion
from accounting.traces import Traces as Reader
from ctld.core.audit import GENESIS
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.v1 import governance_pb2
from penstock.values.refusals import TEXT, Code


class Traces:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _traces(self) -> Reader:
        return self._services.traces

    async def ListTransactions(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Transactions that match, by id, in pages."""
        asked = TxnQuestion(
            request.start_at_us, request.end_at_us, tuple(request.actions), tuple(request.actors),
            tuple(request.accounts), tuple(request.users), tuple(request.ids),
        )  # fmt: skip
        cluster = self._services.runtime.core.state.config.cluster_name
        async for page in self._each(self._traces.transactions(asked), context):
            yield governance_pb2.ListTransactionsReply(transactions=[_transaction(row, cluster) for row in page])

    async def ListAudit(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Records that match, by id, in pages; the last page says where the chain ends."""
        asked = AuditQuestion(
            request.from_id, request.start_at_us, request.end_at_us, tuple(request.users), request.records_max
        )
        head = self._services.audit_head  # committed: what is read from here on has it
        first = True
        async for page in self._each(self._traces.audit(asked), context):
            reply = governance_pb2.ListAuditReply(
                records=[governance_pb2.AuditInfo(id=r.audit_id, record=r.record, hash=r.hash) for r in page]
            )
            if first:
                reply.previous_hash = await self._in_thread(self._hash_before, page[0].audit_id)
                first = False
            yield reply
        yield governance_pb2.ListAuditReply(head_id=head.audit_id, head_hash=head.hash)

    def _hash_before(self, audit_id: int) -> str:
        return self._traces.hash_of(audit_id - 1) if audit_id > 1 else GENESIS

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._services.trace_threads, function, *arguments)

    async def _each(self, pages: Iterator[list[Any]], context: Any) -> AsyncIterator[list[Any]]:
        try:
            while (page := await self._in_thread(next, pages, None)) is not None:
                yield page
        except TracesUnavailable as error:
            await refuse_as(context, BadRequest(Code.INTERNAL, f"{TEXT[Code.INTERNAL]}: {error}"))


def _transaction(row: Any, cluster: str) -> governance_pb2.TransactionInfo:
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
