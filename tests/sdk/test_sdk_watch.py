"""A stream of changes that ends or is silent: what a program sees of it."""

import asyncio
import signal
from collections.abc import Iterator

import pytest
from livecluster import CTLD, ClusterConf, LiveCluster

from penstock.aclient import AsyncClient
from penstock.client import Client
from penstock.clusterfile import read_cluster
from penstock.errors import NotProven, Unreachable
from penstock.v1 import controller_pb2
from sdk.aio import AsyncCluster
from sdk.cluster import Cluster
from sdk.questions import watched


@pytest.fixture(scope="module")
def own() -> Iterator[LiveCluster]:
    with LiveCluster(1, ClusterConf(more=("AuthAltTypes=auth/jwt",))) as live:
        yield live


def token_of(live: LiveCluster) -> str:
    with Client(read_cluster(live.cluster_file)) as client:
        return str(client.call("IssueToken", controller_pb2.IssueTokenRequest()).token)


def revoke(live: LiveCluster) -> None:
    with Client(read_cluster(live.cluster_file)) as client:
        client.call("RevokeTokens", controller_pb2.RevokeTokensRequest())


def test_a_revoked_token_ends_a_watch(own: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(own)
    with Cluster(own.cluster_file) as local:
        monkeypatch.setenv("SLURM_JWT", token)
        with Cluster(own.cluster_file) as cluster:
            changes = cluster.watch(after=cluster.sequence(), kinds=["JOB"])
            first = local.submit_text("#!/bin/sh\n", hold=True)
            assert next(changes).id == first.id
            monkeypatch.delenv("SLURM_JWT")
            revoke(own)
            with pytest.raises(NotProven, match="the token has been revoked"):
                next(changes)


def test_the_same_from_asyncio(own: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", token_of(own))

    async def story() -> None:
        async with AsyncCluster(own.cluster_file) as cluster:
            changes = cluster.watch(after=await cluster.sequence(), kinds=["JOB"])
            first = await cluster.submit_text("#!/bin/sh\n", hold=True)
            assert (await anext(changes)).id == first.id
            monkeypatch.delenv("SLURM_JWT")
            await asyncio.to_thread(revoke, own)
            with pytest.raises(NotProven, match="the token has been revoked"):
                await anext(changes)

    asyncio.run(story())


def test_a_controller_that_is_stopped_is_noticed_and_nothing_is_lost(
    own: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel still answers: only its silence says so."""
    controller = own.daemons[CTLD].process
    with Cluster(own.cluster_file, timeout_s=600) as cluster, Client(read_cluster(own.cluster_file)) as client:
        changes = cluster.watch(after=cluster.sequence(), kinds=["JOB"])
        first = cluster.submit_text("#!/bin/sh\n", hold=True)
        assert next(changes).id == first.id
        monkeypatch.setattr("penstock.client.SILENT_S", 0.5)
        replies = client.follow("Watch", watched(0, (), ()))
        next(replies)
        controller.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable):
                next(replies)
        finally:
            controller.send_signal(signal.SIGCONT)
        second = cluster.submit_text("#!/bin/sh\n", hold=True)
        assert next(changes).id == second.id


def test_the_same_silence_from_asyncio(own: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.aclient.SILENT_S", 0.5)
    controller = own.daemons[CTLD].process

    async def story() -> None:
        async with AsyncClient(read_cluster(own.cluster_file)) as client:
            replies = client.follow("Watch", watched(0, (), ()))
            await anext(replies)
            controller.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(Unreachable):
                    await anext(replies)
            finally:
                controller.send_signal(signal.SIGCONT)

    asyncio.run(story())
