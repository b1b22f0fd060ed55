"""Item 9: one request that means millions. Every method, every repeated and text field, filled with what is worst for it,
against a controller of its own: the loop's longest turn stays short, so nobody waits long for anybody else.

A turn is measured in the CPU time of the loop's thread, by the controller itself, so a busy machine fails nothing. Beside each
request another user lists the queue. The controller is asked after some requests; if one of them took too long, each is tried
again and asked for alone, as a busy machine is late once and not each time.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import hostile
import pytest
from hostile import Case, cases
from patience import END_S

from penstock.calls import TOKEN_KEY
from penstock.security.ca import load_credentials
from penstock.security.tls import node_channel
from penstock.security.tokens import TokenIssuer
from penstock.v1 import controller_pb2, explain_pb2, shares_pb2
from penstock.values.requestkey import new_request_key
from tests.rpc.clusterkit import Process, Site, now_us, submit

#: The rule is 50 ms a turn; twice as much is what a slow machine is allowed.
TURN_MAX_US = 100_000
#: Another user's listing of the queue, begun together with the request.
LISTING_MAX_S = 1.5
TRIES = 3
#: What another user asks for meanwhile.
LISTING = controller_pb2.ListJobsRequest(filter=controller_pb2.JobFilter(ids=["2"])).SerializeToString()
#: Requests after which the controller is asked.
TOGETHER = 10
#: How long a caller waits for what will not happen: the work of its request is done in the first turn.
PATIENCE_S = 0.2
#: Jobs that were taken stay, and so does some room for messages of 16 MB. The cases have gigabytes: what each left would show.
MEMORY_MAX_KB = 512 * 1024
#: Nobody's on any machine.
USER, OPERATOR, COORDINATOR, BYSTANDER = 771_003, 771_004, 771_005, 771_006
#: Named by the code that counts turns, and slow by intention: the configuration is read, the database is gone through.
EXTRA = f"PenstockOperators={OPERATOR}\nMaxArraySize=4000001\nScronParameters=enable\n"


class Attacker:
    """Calls as somebody, in bytes."""

    def __init__(self, site: Site, channel: Any, uid: int | None) -> None:
        self._issuer = TokenIssuer(load_credentials(site.state / "ca", "controller", now_us()))
        self._channel, self._uid = channel, uid

    async def call(self, case: Case, data: bytes) -> str:
        """The status of the answer."""
        metadata = ((TOKEN_KEY, self._issuer.issue(self._uid, self._uid, now_us())),) if self._uid is not None else ()
        make = self._channel.unary_stream if case.is_stream else self._channel.unary_unary
        limit_s = PATIENCE_S if case.waits else END_S
        call = make(case.method, None, None)(data, metadata=metadata, timeout=limit_s)
        try:
            if case.is_stream:
                async for _ in call:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            if case.waits and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return "OK"
            return f"{error.code().name}: {error.details()}"
        return "OK"


class Watch:
    """What the controller says of itself, and what another user notices, over a connection of its own."""

    def __init__(self, site: Site, client: Any, child: int, bystander: Any) -> None:
        self._client, self._child = client, child
        self._list = bystander.unary_stream("/penstock.v1.Controller/ListJobs", None, None)
        self._issuer = TokenIssuer(load_credentials(site.state / "ca", "controller", now_us()))
        self.calls = self.longest_us = 0
        self.listing_s = 0.0
        self._begun_kb = self.memory_kb()

    async def listing(self) -> float:
        """Seconds that a listing of the queue takes another user."""
        began_s = time.monotonic()
        proof = ((TOKEN_KEY, self._issuer.issue(BYSTANDER, BYSTANDER, now_us())),)
        async for _ in self._list(LISTING, metadata=proof):
            pass
        return time.monotonic() - began_s

    def figures(self) -> str:
        """What was the worst."""
        return (
            f"{self.calls} calls, longest turn {self.longest_us / 1000:.0f} ms, longest listing of another user "
            f"{self.listing_s * 1000:.0f} ms, {self.memory_kb() - self._begun_kb} kB more memory"
        )

    async def turn_us(self) -> tuple[int, int]:
        """Since the last question: the longest turn, and the requests that have met an error of the controller's own."""
        reply = await self._client.call("Diagnostics", explain_pb2.DiagnosticsRequest())
        await self._client.call("ResetDiagnostics", explain_pb2.ResetDiagnosticsRequest())
        return reply.longest_turn_us, reply.spared

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self._child}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@asynccontextmanager
async def attacked(tmp_path: Path, nodes: int = 50) -> AsyncIterator[tuple[Site, Any, Watch]]:
    site = Site(tmp_path, nodes=nodes, extra=EXTRA)
    process = Process(site)
    try:
        await process.up()
        async with (
            site.client() as client,
            grpc.aio.insecure_channel(
                f"unix:{site.state}/ctld.sock",
                [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
            ) as channel,
            grpc.aio.insecure_channel(
                f"unix:{site.state}/ctld.sock", [("grpc.use_local_subchannel_pool", 1)]
            ) as bystander,
        ):
            await make_coordinator(client)
            assert await submit(client, array=hostile.ARRAY) == 1
            await split_tasks(client)
            for _ in range(20):
                await submit(client)
            watch = Watch(site, client, process.child.pid, bystander)
            before_kb = watch.memory_kb()
            yield site, channel, watch
            assert watch.memory_kb() - before_kb < MEMORY_MAX_KB
            await watch.turn_us()  # it still answers
        assert process.child.poll() is None, process.log.read_text()[-3000:]
        assert process.stop() == 0, process.log.read_text()[-3000:]
    finally:
        if process.child.poll() is None:
            process.kill()


async def split_tasks(client: Any) -> None:
    """Makes a record of each of the array's first tasks."""
    ids = [f"1_{number * hostile.ARRAY_STEP}" for number in range(hostile.SPLIT_TASKS)]
    reply = await client.call("ControlJobs", controller_pb2.ControlJobsRequest(ids=ids, action="HOLD"))
    assert [result.id for result in reply.results] == ids
    assert not any(result.code for result in reply.results)


async def make_coordinator(client: Any) -> None:
    people = [str(COORDINATOR), *(str(800_000 + number) for number in range(200))]
    for request in (
        shares_pb2.ChangeAccountsRequest(action="ADD", entity="account", names=["physics"]),
        shares_pb2.ChangeAccountsRequest(action="ADD", entity="user", names=people, accounts=["physics"]),
        shares_pb2.ChangeAccountsRequest(action="ADD", entity="coordinator", names=["physics"], users=people[:1]),
    ):
        await client.call("ChangeAccounts", request)


def new_key() -> str:
    return new_request_key(now_us(), os.urandom(10))


async def sweep(attacker: Attacker, watch: Watch, everything: bool = False, part: int = 0, parts: int = 1) -> str:
    """What took too long, or met an error, of every `parts`-th case from that of number `part`.

    Work that is too much takes too long each time; on a machine whose processors are shared with others, anything does once.
    """
    found: list[str] = []
    await watch.turn_us()
    for some in batched(islice(cases(new_key, everything), part, None, parts)):
        met = await meet(attacker, watch, some)
        if met.fault or met.is_slow:
            alone = [(case, await meet_again(attacker, watch, case)) for case in some]
            found += [f"{one.said}: {case}" for case, one in alone if one.fault or one.is_slow]
            if met.fault and not any(one.fault for _, one in alone):
                found.append(f"{met.said}: {', '.join(map(str, some))}")
            met = max((one for _, one in alone), key=lambda one: one.turn_us)
        watch.calls += len(some)
        watch.longest_us = max(watch.longest_us, met.turn_us)
        watch.listing_s = max(watch.listing_s, met.listing_s)
    return "\n".join(found)


def batched(found: Iterator[Case]) -> Iterator[tuple[Case, ...]]:
    while some := tuple(islice(found, TOGETHER)):
        yield some


class Met(NamedTuple):
    """What a request has met, and caused."""

    turn_us: int
    listing_s: float
    fault: str

    @property
    def is_slow(self) -> bool:
        return self.turn_us > TURN_MAX_US or self.listing_s > LISTING_MAX_S

    @property
    def said(self) -> str:
        return f"{self.turn_us / 1000:.0f} ms, listing {self.listing_s:.1f} s, {self.fault or 'no error'}"


async def meet(attacker: Attacker, watch: Watch, some: tuple[Case, ...]) -> Met:
    """Makes the requests, one after the other, and beside each a listing as somebody else."""
    longest_s, wrong = 0.0, ""
    for case in some:
        status, listing_s = await asyncio.gather(attacker.call(case, case.make()), watch.listing())
        longest_s = max(longest_s, listing_s)
        if status.startswith(("UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL")):
            wrong = wrong or status[:200]
    took_us, errors = await watch.turn_us()
    return Met(took_us, longest_s, f"{errors} errors, {wrong}" if errors or wrong else "")


async def meet_again(attacker: Attacker, watch: Watch, case: Case) -> Met:
    """One request, tried again while it is slow."""
    for _ in range(TRIES):
        answer = await meet(attacker, watch, (case,))
        if answer.fault or not answer.is_slow:
            break
    return answer


def test_no_size_of_any_field_holds_the_loop(tmp_path: Path) -> None:
    async def story() -> None:
        async with attacked(tmp_path) as (site, channel, watch):
            assert await sweep(Attacker(site, channel, 0), watch) == ""

    asyncio.run(story())


#: A caller without a proof is "nobody".
ROLES = {"nobody": None, "user": USER, "coordinator": COORDINATOR, "operator": OPERATOR, "administrator": 0}
#: An administrator's requests do what they say: the whole sweep takes longer than a test may.
PARTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("role", ROLES)
def test_every_role_with_every_size_and_value(tmp_path: Path, role: str, part: int) -> None:
    """And memory returns, and nothing ends (`attacked`)."""

    async def story() -> None:
        async with attacked(tmp_path) as (site, channel, watch):
            found = await sweep(Attacker(site, channel, ROLES[role]), watch, True, part, PARTS)
            print(watch.figures())  # shown with -rP
            assert found == ""

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_node_with_every_size_and_value(tmp_path: Path, part: int) -> None:
    """With the certificate of a node: it is a node, and calls nothing else."""

    async def story() -> None:
        async with attacked(tmp_path) as (site, _, watch):
            options = [("grpc.max_send_message_length", -1)]
            address = f"127.0.0.1:{site.ports[1]}"
            async with grpc.aio.secure_channel(address, node_channel(site.node_credentials("n1")), options) as channel:
                found = await sweep(Attacker(site, channel, None), watch, True, part, PARTS)
                print(watch.figures())  # shown with -rP
                assert found == ""

    asyncio.run(story())
