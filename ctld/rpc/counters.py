"""Of the Governance service: what has been used of limits and budgets."""

from collections.abc import AsyncIterator
from typing import Any

from ctld.rpc.auth import caller
from ctld.rpc.budgets import budgets
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.v1 import governance_pb2
from penstock.values.refusals import Code


class CountersService:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ListBudgets(self, request: Any, context: Any) -> Any:
        """What accounts may use, and what is used of it."""
        runtime = self._services.runtime
        found = budgets(runtime.core.state, caller(), request.accounts, runtime.clock_us())
        return governance_pb2.ListBudgetsReply(budgets=found)

    async def ListCounters(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListCounters"))
        yield
