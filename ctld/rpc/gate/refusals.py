"""Maps refusals to gRPC statuses: one table. The number and the text are passed unchanged; the status is for tools that
know only gRPC. UNAVAILABLE is used only for errors after which a client should retry automatically."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NoReturn, TypeAlias, TypeVar

import grpc

from ctld.core.records.effects import Refusal
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.rights import refuse
from ctld.runtime.errors import BadRequest, NotTaken
from ctld.store.errors import StorageAway
from penstock.errors import PenstockError
from penstock.values.refusals import TEXT, Code

_S = grpc.StatusCode
S = TypeVar("S")
Q = TypeVar("Q")
A = TypeVar("A")
_Method: TypeAlias = Callable[[S, Q, Context], Awaitable[A]]
_Pages: TypeAlias = Callable[[S, Q, Context], AsyncIterator[A]]

#: The errors of a method that are refusals.
_REFUSALS: Final = (BadRequest, NotTaken, StorageAway, PenstockError)
STATUS: Final[dict[int, grpc.StatusCode]] = {
    Code.ACCESS_DENIED: _S.PERMISSION_DENIED,
    Code.INVALID_JOB_ID: _S.NOT_FOUND,
    Code.INVALID_NODE_NAME: _S.NOT_FOUND,
    Code.RESERVATION_ACCESS: _S.PERMISSION_DENIED,
    Code.RESERVATION_INVALID: _S.NOT_FOUND,
    Code.INVALID_USER: _S.INVALID_ARGUMENT,
    Code.INVALID_PARTITION: _S.INVALID_ARGUMENT,
    Code.INVALID_VALUE: _S.INVALID_ARGUMENT,
    Code.INVALID_ARRAY: _S.INVALID_ARGUMENT,
    Code.INVALID_DEPENDENCY: _S.INVALID_ARGUMENT,
    Code.INVALID_FEATURE: _S.INVALID_ARGUMENT,
    Code.INVALID_GRES: _S.INVALID_ARGUMENT,
    Code.INVALID_TIME_VALUE: _S.INVALID_ARGUMENT,
    Code.PATHNAME_TOO_LONG: _S.INVALID_ARGUMENT,
    Code.SCRIPT_TOO_LARGE: _S.INVALID_ARGUMENT,
    Code.ENVIRONMENT_TOO_LARGE: _S.INVALID_ARGUMENT,
    Code.JOB_SCRIPT_MISSING: _S.INVALID_ARGUMENT,
    Code.NOT_SUPPORTED: _S.UNIMPLEMENTED,
    Code.MAX_JOB_COUNT: _S.RESOURCE_EXHAUSTED,
    Code.STORAGE_FULL: _S.RESOURCE_EXHAUSTED,
    Code.STORAGE_AWAY: _S.RESOURCE_EXHAUSTED,
    Code.USER_STORAGE_LIMIT: _S.RESOURCE_EXHAUSTED,
    Code.BUSY: _S.RESOURCE_EXHAUSTED,
    Code.RATE_LIMITED: _S.RESOURCE_EXHAUSTED,
    Code.INTERNAL: _S.INTERNAL,
}


async def refuse_as(context: Context, error: BadRequest | NotTaken | Refusal) -> NoReturn:
    """Ends the call with the refusal."""
    code = Code(error.code)
    passing = isinstance(error, NotTaken) and error.passing
    await refuse(context, _S.UNAVAILABLE if passing else STATUS.get(code, _S.FAILED_PRECONDITION), code, error.text)


def translated(handler: _Method[S, Q, A]) -> _Method[S, Q, A]:
    """Wraps a method so that its refusals become statuses."""

    async def method(self: S, request: Q, context: Context) -> A:
        try:
            return await handler(self, request, context)
        except _REFUSALS as error:
            await refuse_as(context, _refusal(error))

    return method


def translated_pages(handler: _Pages[S, Q, A]) -> _Pages[S, Q, A]:
    """Wraps a method that answers in pages, in the same way."""

    async def method(self: S, request: Q, context: Context) -> AsyncIterator[A]:
        try:
            async for page in handler(self, request, context):
                yield page
        except _REFUSALS as error:
            await refuse_as(context, _refusal(error))

    return method


def _refusal(error: Exception) -> BadRequest | NotTaken:
    """Returns one of _REFUSALS as it is sent."""
    if isinstance(error, StorageAway):
        return BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY])
    if isinstance(error, PenstockError):
        return BadRequest(Code(error.code), error.text)
    assert isinstance(error, BadRequest | NotTaken)
    return error
