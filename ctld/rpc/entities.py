"""Of the Governance service: wckeys, TRES, licences that accounting knows, and many changes at once."""

from typing import Any

from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from penstock.values.refusals import Code


class Entities:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ChangeMany(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ChangeMany"))

    async def ListWckeys(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListWckeys"))

    async def ListTres(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListTres"))

    async def ListResources(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListResources"))
