"""Item 9, by the REST daemon: no body holds its loop. Each member of each body is a list or a text as long as may be sent:
one in three of them, all in `make test-full`.

A turn is measured in the CPU time of the loop's thread, as in test_09_turns.
"""

import asyncio
import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import restbodies
from effort import sample
from fakerest import TOKEN, FakeRest

from penstock.errors import PenstockError
from penstock.values.refusals import Code
from rest.body import INLINE_BYTES_MAX, parse_json
from rest.contract.facts import Operation
from rest.limits import BODY_BYTES_MAX, BODY_VALUES_MAX

#: The rule is 50 ms a turn; twice as much is what a slow machine is allowed.
TURN_MAX_S = 0.1
MANY = 40_000


def filled(bytes_max: int) -> restbodies.Filling:
    """Lists of one item as long as may be sent, texts as long, and a short text that stands for much."""

    def many(item: Any) -> Iterator[list[Any]]:
        values = 1 + (2 * len(item) if isinstance(item, dict) else 0)
        yield [item] * min(MANY // values, bytes_max // (len(json.dumps(item)) + 2))
        yield [item]

    return restbodies.Filling(texts=("x," * (bytes_max // 2), "n[0-65534],"), numbers=(1,), lists=many)


#: As long as a body may be without a thread, and what is long enough for one.
INLINE = filled(INLINE_BYTES_MAX - 1024)
LONG = filled(1_000_000)
#: Records of which a request has most.
ASSOCIATIONS = "/slurmdb/v0.0.46/associations/"


class Turns:
    """The CPU time of the running loop's longest turn, by a callback in each."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._at_s = time.thread_time()
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._at_s)
        self._at_s = now_s
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._next.cancel()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Keeps the garbage of earlier tests out of the turns: the collector runs in whatever turn it is due."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "operation",
    [one for one in restbodies.OPERATIONS if one.body is not None],
    ids=lambda one: f"{one.method}-{restbodies.path_of(one)}",
)
def test_09_no_body_holds_the_loop(operation: Operation) -> None:
    assert slow_turns(operation, INLINE) == []


@pytest.mark.slow
@pytest.mark.usefixtures("uncollected")
def test_09_a_megabyte_of_associations_does_not_either() -> None:
    """It is parsed and checked in a thread, and its request is made in slices."""
    [operation] = [
        one for one in restbodies.OPERATIONS if one.method == "post" and restbodies.path_of(one) == ASSOCIATIONS
    ]
    assert slow_turns(operation, LONG) == []


def slow_turns(operation: Operation, filling: restbodies.Filling) -> list[str]:
    """The bodies whose turns were too long."""
    rest = FakeRest()
    rest.client.replies = AlwaysAway()
    slow: list[str] = []

    async def send() -> None:
        turns = Turns()
        async with rest.session() as session:
            for path, body in sample(restbodies.requests_of(operation, filling), 3):
                if body is None:
                    continue
                content = json.dumps(body).encode()
                if len(content) > BODY_BYTES_MAX:
                    continue
                headers = TOKEN | {"Content-Type": "application/json"}
                await asyncio.sleep(0)  # a turn begins
                turns.longest_s = 0.0
                reply = await session.request(operation.method.upper(), path, content=content, headers=headers)
                await asyncio.sleep(0)  # it has ended
                assert reply.status_code < 600
                if turns.longest_s > TURN_MAX_S:
                    slow.append(f"{path}: {turns.longest_s:.3f} s: {content[:100]!r} ... {content[-100:]!r}")
        turns.stop()

    asyncio.run(send())
    return slow


class AlwaysAway(dict[str, Any]):
    """No controller: what is measured is what comes before it is asked."""

    def __missing__(self, method: str) -> PenstockError:
        return PenstockError(Code.BUSY, f"{method}: not now")


@pytest.mark.parametrize("data", [
    b"[" + b"0," * 8_000_000 + b"0]", b"[" + b'"",' * 5_000_000 + b'""]', b"[" + b"[]," * 5_000_000 + b"[]]",
    b'{"a":' * 400_000, b'"' + b'\\"' * 8_000_000 + b'"', b"[" * 16_000_000,
])  # fmt: skip
def test_09_values_are_counted_before_they_are_made(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser holds the interpreter, in a thread too. A text that is as long is one value."""
    asked: list[int] = []
    loads = json.loads

    def noted(text: str, **more: Any) -> Any:
        asked.append(len(text))
        return loads(text, **more)

    monkeypatch.setattr(json, "loads", noted)
    if data.startswith(b'"'):
        assert parse_json(data) == '"' * 8_000_000
        return
    with pytest.raises(Exception, match="more than 100000 values|nested too deep|not JSON"):
        parse_json(data)
    assert asked == [] or data.startswith(b"[[")  # those end at their depth


def test_09_commas_of_a_script_are_no_values() -> None:
    script = "#!/bin/sh\n" + 'echo "a,b:c\\\\" \\\n' * BODY_VALUES_MAX
    assert parse_json(json.dumps({"script": script}).encode()) == {"script": script}
