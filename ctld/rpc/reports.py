"""Of the Governance service: events, reports from roll-ups, runaway jobs, purges."""

from collections.abc import AsyncIterator
from typing import Any

from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.values.refusals import Code


class Reports:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ListRunaway(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListRunaway"))

    async def FixRunaway(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "FixRunaway"))

    async def Purge(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "Purge"))

    async def ListEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListEvents"))
        yield

    async def Report(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "Report"))
        yield
