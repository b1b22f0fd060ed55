"""rl_enable: buckets of tokens by user."""

import asyncio
import logging

import grpc
import pytest

from ctld.core.records.events import Actor, Role
from ctld.rpc.gate.ratelimit import RateLimiter, RateLimits
from penstock.config.kinds import PARAMETERS
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import Site

USER = 54_321


def parameters(text: str) -> tuple[tuple[str, str], ...]:
    return PARAMETERS.read(text, "SlurmctldParameters")


def user(uid: int, role: Role = Role.USER) -> Actor:
    return Actor(uid, uid, f"u{uid}", "g", (), role)


class World:
    """A limiter with a clock by hand."""

    def __init__(self, text: str) -> None:
        self.text = parameters(text)
        self.now_s = 1000.25
        self.limiter = RateLimiter(lambda: self.text, lambda: self.now_s)

    def asks(self, uid: int, times: int = 1, role: Role = Role.USER) -> list[int]:
        return [self.limiter.wait_ms(user(uid, role)) for _ in range(times)]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", None),
        ("cloud_dns,rl_bucket_size=9", None),
        ("rl_enable", RateLimits(30, 2, 1, 8192, 0)),
        ("RL_Enable,rl_bucket_size=50,rl_refill_rate=10,rl_refill_period=3,rl_table_size=7,rl_log_freq=-1",
         RateLimits(50, 10, 3, 7, -1)),
        ("rl_enable,rl_bucket_size=x,rl_refill_rate=0,rl_refill_period=,rl_log_freq=--1", RateLimits(30, 1, 1, 8192, 0)),
        ("rl_enable,rl_bucket_size=99999999999999999999", RateLimits()),
    ],
)  # fmt: skip
def test_numbers(text, limits):
    assert RateLimits.of(parameters(text) if text else ()) == limits


def test_a_full_bucket_then_the_refill():
    world = World("rl_enable,rl_bucket_size=3,rl_refill_rate=2,rl_refill_period=2")
    assert world.asks(1, 5) == [0, 0, 0, 1750, 1750]
    assert world.asks(2) == [0]
    world.now_s = 1002.0
    assert world.asks(1, 3) == [0, 0, 2000]
    world.now_s = 1100.5
    assert world.asks(1, 4) == [0, 0, 0, 1500]


def test_administrators_and_nodes_are_not_limited():
    world = World("rl_enable,rl_bucket_size=1")
    assert world.asks(0, 50, Role.ADMINISTRATOR) == [0] * 50
    assert [world.limiter.wait_ms(None) for _ in range(50)] == [0] * 50
    assert world.asks(5, 2, Role.OPERATOR) == [0, 750]


def test_without_rl_enable_there_is_no_limit():
    world = World("cloud_dns")
    assert world.asks(1, 1000) == [0] * 1000


def test_a_reload_counts_from_now():
    world = World("rl_enable,rl_bucket_size=1")
    assert world.asks(1, 2) == [0, 750]
    world.text = parameters("rl_enable,rl_bucket_size=2")
    assert world.asks(1, 3) == [0, 0, 750]
    world.text = ()
    assert world.asks(1, 3) == [0, 0, 0]


def test_of_too_many_users_the_longest_silent_is_forgotten():
    world = World("rl_enable,rl_bucket_size=1,rl_table_size=2")
    assert (world.asks(1), world.asks(2), world.asks(1), world.asks(3)) == ([0], [0], [750], [0])
    assert (world.asks(1), world.asks(2)) == ([750], [0])


@pytest.mark.parametrize(("every", "lines"), [("0", 6), ("10", 2), ("-1", 0)])
def test_lines_in_the_log(caplog, every, lines):
    caplog.set_level(logging.INFO, "ctld.ratelimit")
    world = World(f"rl_enable,rl_bucket_size=1,rl_log_freq={every}")
    world.asks(1, 4)
    world.now_s += 20.0
    world.asks(1, 4)
    assert len(caplog.records) == lines


def test_over_the_wire_a_user_waits_and_an_administrator_does_not(tmp_path):
    site = Site(
        tmp_path, extra="SlurmctldParameters=rl_enable,rl_bucket_size=2,rl_refill_rate=1,rl_refill_period=3600\n"
    )

    async def story():
        async with site.controller():
            ping = c.PingRequest()
            for _ in range(2):
                await site.call_as(USER, "Ping", ping)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await site.call_as(USER, "Ping", ping)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.value.details().startswith("RPC rate limit exceeded: ")
            with pytest.raises(grpc.aio.AioRpcError):
                await site.call_as(USER, "ListJobs", c.ListJobsRequest())
            await site.call_as(USER + 1, "Ping", ping)
            for _ in range(5):
                await site.call_as(0, "Ping", ping)

    asyncio.run(story())
