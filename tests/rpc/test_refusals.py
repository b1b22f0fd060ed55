"""Errors of a method that are refusals are the same statuses, whether it answers at once or in pages."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import grpc
import grpc.aio
import pytest

from ctld.rpc.gate.context import Context
from ctld.rpc.gate.localcall import LocalCall
from ctld.rpc.gate.refusals import translated, translated_pages
from ctld.runtime.errors import BadRequest, NotTaken
from ctld.store.errors import StorageAway
from penstock.errors import PenstockError
from penstock.values.refusals import TEXT, Code

S = grpc.StatusCode


class Methods:
    """They end with the error that is their request."""

    @translated
    async def whole(self, request: Exception, context: Context) -> int:
        raise request

    @translated_pages
    async def pages(self, request: Exception, context: Context) -> AsyncIterator[int]:
        yield 1
        raise request


async def no_page(page: bytes) -> None:
    """Nobody reads."""


@pytest.mark.parametrize(
    ("error", "code", "status", "text"),
    [
        (BadRequest(Code.INVALID_VALUE, "no number"), Code.INVALID_VALUE, S.INVALID_ARGUMENT, "no number"),
        (NotTaken(Code.BUSY, "busy", True), Code.BUSY, S.UNAVAILABLE, TEXT[Code.BUSY]),
        (StorageAway("the server is away"), Code.STORAGE_AWAY, S.RESOURCE_EXHAUSTED, TEXT[Code.STORAGE_AWAY]),
        (PenstockError(Code.ACCESS_DENIED, "not yours"), Code.ACCESS_DENIED, S.PERMISSION_DENIED, "not yours"),
    ],
)
def test_both_kinds_of_methods_refuse_alike(error: Exception, code: Code, status: grpc.StatusCode, text: str) -> None:
    async def asked(in_pages: bool) -> LocalCall:
        call = LocalCall(0, 0, no_page)
        context = cast("Context", call)
        with pytest.raises(grpc.aio.AbortError):
            if in_pages:
                assert [page async for page in Methods().pages(error, context)] == [1]
            else:
                await Methods().whole(error, context)
        return call

    for in_pages in (False, True):
        call = asyncio.run(asked(in_pages))
        assert (call.status, call.code) == (status, str(int(code))) and call.text.startswith(text)
