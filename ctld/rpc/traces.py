"""Of the Governance service: transactions and the audit log."""

from collections.abc import AsyncIterator
from typing import Any

from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.values.refusals import Code


class Traces:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ListTransactions(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListTransactions"))
        yield

    async def ListAudit(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListAudit"))
        yield
