"""No value of a query, a path or a body is an internal error: each is carried out or refused.

Each member meets about four of the eleven texts or three of the eight numbers, other ones than its neighbours; all of them
in `make test-full`.

The controller answers every call with an empty message, so whatever fails was made of the request.
"""

import asyncio
import json
import logging
from typing import Any

import pytest
import restbodies
from effort import sample
from fakerest import TOKEN, FakeRest
from google.protobuf.message_factory import GetMessageClass

from ctld.rpc.server import FILES
from rest.contract.facts import Operation

EXTREMES = restbodies.Filling(
    texts=("9" * 18, "-1", "4294967296", "now+999999999999", "NaN", "\0", "\u00e9", "n[1-", "a=b=c,%n", "", "x" * 5000),
    numbers=(-(2**63), -2, -1, 0, 2**32 - 1, 2**63 - 1, 2**64, 1e300),
    lists=lambda item: iter(([item],)),
)


@pytest.fixture(scope="module")
def empty() -> dict[str, Any]:
    """An empty answer to each method of the controller."""
    methods = [one for file in FILES for service in file.services_by_name.values() for one in service.methods]
    return {one.name: GetMessageClass(one.output_type)() for one in methods}


@pytest.mark.parametrize("operation", restbodies.OPERATIONS, ids=lambda one: f"{one.method}-{restbodies.path_of(one)}")
def test_no_value_is_an_internal_error(
    operation: Operation, empty: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rest = FakeRest(empty)
    asked = list(sample(restbodies.requests_of(operation, EXTREMES), 7))
    failed: list[tuple[str, Any]] = []

    async def send() -> None:
        async with rest.session() as session:
            for path, body in asked:
                content = None if body is None else json.dumps(body).encode()
                headers = TOKEN | ({} if body is None else {"Content-Type": "application/json"})
                reply = await session.request(operation.method.upper(), path, content=content, headers=headers)
                if reply.status_code >= 500:
                    failed.append((path, body))

    with caplog.at_level(logging.ERROR):
        asyncio.run(send())
    assert failed == [], caplog.text[-3000:]
    assert bool(asked) == bool(operation.parameters or operation.body)
