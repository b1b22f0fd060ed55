"""Of the Governance service: what has been used of limits and budgets."""

from collections.abc import AsyncIterator
from typing import Any

from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.values.refusals import Code


class CountersService:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ListBudgets(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListBudgets"))

    async def ListCounters(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListCounters"))
        yield
