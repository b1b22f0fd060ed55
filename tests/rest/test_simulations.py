"""Simulations in the REST application, in process: whose they are, how many, and when they end. The child is a stand-in."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest
from patience import ANSWER_S

from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply
from penstock.v1.controller_pb2 import ListNodesReply, NodeInfo, PingReply, RenderConfigReply, ShowConfigReply
from rest.answers import RestError
from rest.limits import (
    RUNNING_SIMULATIONS_MAX,
    SIMULATION_KEPT_S,
    SIMULATION_WALL_S,
    SIMULATIONS_KEPT_MAX,
    USER_SIMULATIONS_KEPT_MAX,
)
from rest.simulations import SimulationRun, Simulations

ANN, BOB, CYD = 1001, 1002, 1003
ECHO = "import json, sys; order = json.loads(sys.stdin.buffer.readline()); print(json.dumps({'name': order['name'], 'jobs': len(sys.stdin.read())}))"
HANGS = "import signal; print('up', flush=True); signal.pause()"


class Clock:
    """A clock that a test moves, or that goes on by `step_s` whenever it is read."""

    def __init__(self, step_s: float = 0) -> None:
        self.now_s = 1000.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(ANSWER_S):
            await test()

    asyncio.run(bounded())


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code)


async def finished(one: SimulationRun) -> None:
    assert one.task is not None
    await asyncio.wait((one.task,))


def begun(simulations: Simulations, user_id: int) -> SimulationRun:
    one = simulations.reserve(user_id)
    simulations.start(one, {"name": "x"}, b"four")
    return one


def status_of(act: Callable[[], object]) -> int:
    with pytest.raises(RestError) as refused:
        act()
    return refused.value.status


def test_a_result_is_its_users_alone_and_is_kept_for_a_while() -> None:
    async def test() -> None:
        clock = Clock()
        simulations = Simulations(child(ECHO), clock)
        one = begun(simulations, ANN)
        await finished(one)
        assert (one.state, one.answer) == ("DONE", {"name": "x", "jobs": 4})
        assert simulations.find(ANN, one.id) is one
        assert status_of(lambda: simulations.find(BOB, one.id)) == 404
        assert status_of(lambda: simulations.cancel(BOB, one.id)) == 404
        assert status_of(lambda: simulations.find(ANN, "../x")) == 404
        clock.now_s += SIMULATION_KEPT_S + 1
        assert status_of(lambda: simulations.find(ANN, one.id)) == 404

    run(test)


def test_one_of_a_user_and_few_in_all() -> None:
    async def test() -> None:
        simulations = Simulations(child(HANGS), Clock())
        first = begun(simulations, ANN)
        assert status_of(lambda: simulations.reserve(ANN)) == 429
        reserved = simulations.reserve(BOB)
        assert RUNNING_SIMULATIONS_MAX == 2
        assert [status_of(lambda: simulations.reserve(CYD)) for _ in range(1000)] == [429] * 1000
        simulations.drop(reserved)
        simulations.cancel(ANN, first.id)
        begun_again = simulations.reserve(ANN)
        await finished(first)
        assert (first.state, begun_again.state) == ("CANCELLED", "READING")
        simulations.cancel(ANN, begun_again.id)
        simulations.start(begun_again, {}, b"")  # the log arrives after its user has cancelled
        assert begun_again.task is None and begun_again.state == "CANCELLED"

    run(test)


def test_results_are_bounded_for_each_user_and_in_all() -> None:
    async def test() -> None:
        simulations = Simulations(child(ECHO), Clock())
        mine = []
        for _ in range(USER_SIMULATIONS_KEPT_MAX + 1):
            mine.append(simulations.reserve(ANN))
            simulations.cancel(ANN, mine[-1].id)
        assert status_of(lambda: simulations.find(ANN, mine[0].id)) == 404 and simulations.find(ANN, mine[1].id)
        for user_id in range(SIMULATIONS_KEPT_MAX):
            simulations.cancel(user_id, simulations.reserve(user_id).id)
        assert status_of(lambda: simulations.find(ANN, mine[-1].id)) == 404
        simulations.cancel(0, simulations.reserve(0).id)  # of one that has ended, forget

    run(test)


@pytest.mark.parametrize(("lease_s", "state", "word"), [(90, "CANCELLED", "nobody"), (1e9, "FAILED", "longer")])
def test_it_ends_when_nobody_asks_and_after_its_time(
    lease_s: float, state: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rest.simulations.SIMULATION_LEASE_S", lease_s)

    async def test() -> None:
        one = begun(Simulations(child(HANGS), Clock(SIMULATION_WALL_S + 1)), ANN)
        await finished(one)
        assert one.state == state and word in one.error

    run(test)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("import os; os.kill(os.getpid(), 9)", "processor time or memory"),
        ("print('{')", "the simulator failed"),
        ("raise SystemExit(7)", "the simulator failed"),
        ("import json, sys; print(json.dumps({'error': 'line 3: ' + 'x' * 10_000})); sys.exit(1)", "line 3: xxx"),
    ],
)
def test_what_a_child_that_fails_leaves(code: str, word: str) -> None:
    async def test() -> None:
        one = begun(Simulations(child(code)), ANN)
        await finished(one)
        assert one.state == "FAILED" and word in one.error and len(one.error) <= 500

    run(test)


def test_a_child_has_nothing_of_the_daemon_and_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "secret")
    tell = "import json, os, sys; sys.stdin.read(); print(json.dumps({'names': sorted(os.environ), 'cwd': os.getcwd(), 'fds': len(os.listdir('/proc/self/fd'))}))"

    async def test() -> None:
        one = begun(Simulations(child(tell)), ANN)
        await finished(one)
        assert "SLURM_JWT" not in json.dumps(one.answer) and one.answer["cwd"] == "/" and one.answer["fds"] in (3, 4)
        begun(Simulations(child(HANGS)), ANN)
        await asyncio.sleep(0)

    run(test)  # would hang here, since asyncio.run waits for what is left


NODE = NodeInfo(
    name="n1", cpus=8, real_memory_mb=1000, gres=[{"name": "gpu", "count": 2}], partitions=["main"], weight=1
)
US = 1_000_000
OLD = JobRecord(job_id=1, submit_at_us=5 * US)
REPLIES = {
    "Ping": PingReply(user_id=ANN), "ListNodes": ListNodesReply(nodes=[NODE, NODE, NodeInfo(name="n3", cpus=4)]),
    "ShowConfig": ShowConfigReply(lines=[{"key": "SelectTypeParameters", "value": "CR_Core_Memory"}]),
}  # fmt: skip


def asked(rest: FakeRest, body: object, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any], bytes]:
    """The status, and what the simulator would get."""
    found: list[tuple[dict[str, Any], bytes]] = []
    monkeypatch.setattr(Simulations, "start", lambda self, run, order, log: found.append((order, log)))
    status = rest.post("/penstock/v1/simulations", body).status_code
    return (status, *found[0]) if found else (status, {}, b"")


def test_the_last_days_are_what_accounting_shows_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked with the caller's proof; a name with the log's own marks adds no column and no row."""
    now_us = 2_000_000_000 * US
    monkeypatch.setattr("rest.app.now_us", lambda: now_us)
    seen = JobRecord(
        job_id=7, user_name="a|b\nc", account="lab", submit_at_us=now_us - 900 * US, start_at_us=now_us - 800 * US,
        end_at_us=now_us - 200 * US, time_limit_s=601, cpus_alloc=4, nodes_alloc=1, tres_alloc="cpu=4", state="COMPLETED",
    )  # fmt: skip
    rest = FakeRest(REPLIES | {"ListRecords": ListRecordsReply(records=[OLD, seen])})
    status, order, log = asked(rest, {"days": 1, "partition": "main"}, monkeypatch)
    assert status == 200 and order["nodes"] == [{"count": 2, "cpus": 8, "memory_mb": 1000, "gpus": 2, "weight": 1}]
    assert order["is_memory_allocated"] and order["policies"] == ["easy"] and order["name"] == "last-1-days"
    _, line = log.decode().split("\n")
    assert line == "7|a_b_c|lab|1999999100|1999999200|1999999800|600|11|1|4|0|cpu=4||COMPLETED"
    method, request, proof = rest.calls[-1]
    assert (method, list(request.partitions)) == ("ListRecords", ["main"]) and dict(proof)[
        "x-slurm-user-token"
    ] == "a.b.c"
    assert TOKEN["X-SLURM-USER-TOKEN"] == "a.b.c"


def test_the_sites_own_policy_has_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the controller shows it to the caller, and only where it is wanted."""
    for body, conf in (({"policies": ["easy", "site"]}, "conf"), ({}, None)):
        rest = FakeRest(REPLIES | {"RenderConfig": RenderConfigReply(text="conf")})
        status, order, _ = asked(rest, {"log": "x", "on_cluster": True, "partition": "main"} | body, monkeypatch)
        assert (status, order.get("conf"), order["partition"]) == (200, conf, "main")
        assert ("RenderConfig" in [method for method, _, _ in rest.calls]) == (conf is not None)
    refused = rest.post("/penstock/v1/simulations", {"log": "x", "policies": ["site"]})
    assert refused.status_code == 422 and "give on_cluster" in refused.text


def test_who_asks_is_the_controllers_word_and_days_without_jobs_hold_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    old = FakeRest(REPLIES | {"Ping": PingReply()})
    assert asked(old, {"log": "x"}, monkeypatch)[0] == 422
    rest = FakeRest(REPLIES | {"ListRecords": ListRecordsReply(records=[OLD])})
    assert [asked(rest, {"days": 1}, monkeypatch)[0] for _ in range(3)] == [422] * 3
    status, order, log = asked(
        rest, {"log": "text", "name": "a/b", "policies": ["sjf", "sjf"], "processors": 7}, monkeypatch
    )
    assert (status, order["policies"], order["name"], order["processors"], log) == (200, ["sjf"], "a_b", 7, b"text")
