"""Two clusters in one database of PostgreSQL: what the controller of `east` shows of `west`, to whom, and what it never shows.

In west ann and sam are users of physics, which cora coordinates, and oda is a user of bio; wanda is an operator. In east
eve coordinates physics and daemon is an operator, and both are nobody in west.
"""

import asyncio
import contextlib
import functools
import os
import pwd
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path

# Any: arguments of the driver
from typing import Any, ParamSpec

import grpc
import psycopg
import pytest
from google.protobuf.message import Message
from patience import ANSWER_S, END_S
from postgres import Server, change, rows

from accounting import serverwait
from accounting.database import read_engine
from ctld.core.records.decay import USAGE_ONE
from ctld.rpc.gate import neighbours
from ctld.store.errors import StoreError
from ctld.store.migrate import REVISIONS
from penstock.security.ca import issue_to_folder, load_ca, load_credentials
from penstock.security.tokens import TokenIssuer
from penstock.v1 import accounting_pb2 as a
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.v1 import shares_pb2 as s
from penstock.values.refusals import TEXT, Code
from tests.rpc.clusterkit import Site, code_of, now_us, submission

ANN, SAM, ODA, CORA, EVE = 54_321, 54_322, 54_323, 54_324, 54_325  # nobody's uids here: their names are their numbers
DAEMON = pwd.getpwnam("daemon").pw_uid
BIN = pwd.getpwnam("bin").pw_uid  # wanda
P = ParamSpec("P")
PRIVATE = "PrivateData=jobs,usage,users,accounts,events\n"


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test that runs in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **keywords: P.kwargs) -> None:
        asyncio.run(test(*args, **keywords))

    return run


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def site(folder: Path, name: str, place: str, extra: str = "", schema: str | None = None) -> Site:
    """A cluster of the database, in a schema of its name."""
    folder.mkdir()
    schema = name if schema is None else schema
    key = f"PenstockDatabaseSchema={schema}\n" if schema else ""
    made = Site(folder, extra=f"PenstockDatabaseUrl={place}\n{key}{extra}")
    made.conf.write_text(made.conf.read_text().replace("ClusterName=test", f"ClusterName={name}"))
    return made


async def join(site: Site, account: str, users: tuple[int, ...], coordinator: int = 0) -> None:
    async def root(request) -> None:
        await site.call_as(0, "ChangeAccounts", request)

    await root(s.ChangeAccountsRequest(action="ADD", entity="account", names=[account]))
    await root(s.ChangeAccountsRequest(action="ADD", entity="user", names=list(map(str, users)), accounts=[account]))
    if coordinator:
        add = s.ChangeAccountsRequest(action="ADD", entity="coordinator", names=[account], users=[str(coordinator)])
        await root(add)


async def owners(site: Site, uid: int, cluster: str = "west") -> set[int]:
    """Whose records somebody sees."""
    pages = await site.call_as(uid, "ListRecords", a.ListRecordsRequest(cluster=cluster))
    assert all(record.cluster == cluster for page in pages for record in page.records)
    return {record.user_id for page in pages for record in page.records}


async def refusal(site: Site, uid: int, method: str, request) -> tuple[Code, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await site.call_as(uid, method, request)
    return code_of(refused.value), str(refused.value.details())


@contextlib.asynccontextmanager
async def pair(folder: Path, place: str, private: str = PRIVATE) -> AsyncIterator[tuple[Site, Site]]:
    """east, which runs, and west, which is down."""
    east = site(folder / "e", "east", place, "PenstockOperators=daemon\n")
    west = site(folder / "w", "west", place, f"PenstockOperators=bin\n{private}")
    async with west.controller():
        await join(west, "physics", (ANN, SAM, CORA), CORA)
        await join(west, "bio", (ODA,))
        for uid, account in ((ANN, "physics"), (SAM, "physics"), (ODA, "bio")):
            await west.call_as(uid, "SubmitJob", submission(account=account))
    async with east.controller():
        await join(east, "physics", (EVE, SAM), EVE)
        yield east, west


@in_loop
async def test_who_sees_what_of_a_cluster_that_is_down(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = server.new_database()
    async with pair(tmp_path, place) as (east, west):
        sees = {ANN: {ANN}, SAM: {SAM}, ODA: {ODA}, EVE: set(), DAEMON: set(), CORA: {ANN, SAM}}
        everything = {ANN, SAM, ODA}
        for uid, seen in (*sees.items(), (BIN, everything), (0, everything)):
            assert await owners(east, uid) == seen, uid
            pages = await east.call_as(uid, "ListRecords", a.ListRecordsRequest(cluster="west", users=[str(SAM)]))
            assert {r.user_id for page in pages for r in page.records} == seen & {SAM}
            trees = await east.call_as(uid, "ListAssociations", s.ListAssociationsRequest(cluster="west"))
            named = {row.name for page in trees for row in page.users} & set(map(str, everything))
            assert named == set(map(str, seen)), uid
            assert (trees[0].cluster, trees[0].controller_host, trees[0].controller_port) == ("west", "", 0)
            report = g.ReportRequest(
                kind="WAITS", group_by=["user"], start_at_us=1, end_at_us=now_us() + 10**10, cluster="west"
            )
            (page,) = await east.call_as(uid, "Report", report)
            assert {row.keys[0] for row in page.rows} <= set(map(str, seen))
        for uid in (BIN, 0):
            assert await owners(east, uid, "east") == set()
        # the operator of west is a plain user of east, as a node or a login host of east may say of anybody
        folder = tmp_path / "login"
        issue_to_folder(load_ca(east.state / "ca"), folder, "login", "gate", now_us())
        issuer = TokenIssuer(load_credentials(folder, "login", now_us()))
        with monkeypatch.context() as patch:
            patch.setattr(east, "token", lambda uid: issuer.issue(uid, uid, now_us()))
            for uid, seen in ((BIN, set()), (CORA, {ANN, SAM}), (ANN, {ANN}), (0, set())):
                assert await owners(east, uid) == seen, uid
        transactions = g.ListTransactionsRequest(cluster="west")
        assert (await refusal(east, DAEMON, "ListTransactions", transactions))[0] == Code.ACCESS_DENIED
        found = await east.call_as(0, "ListTransactions", transactions)
        assert "physics" in str(found) and 'cluster: "west"' in str(found)
        # with a script, of others, only administrators
        pages = await east.call_as(
            BIN, "ListRecords", a.ListRecordsRequest(cluster="west", ids=["1"], with_script=True)
        )
        assert [r.script for page in pages for r in page.records] == [b""]
        pages = await east.call_as(
            ANN, "ListRecords", a.ListRecordsRequest(cluster="west", ids=["1"], with_script=True)
        )
        assert [bool(r.script) for page in pages for r in page.records] == [True]
        # west begins again, and takes back what it has given; by its lease it is up
        async with west.controller():
            remove = s.ChangeAccountsRequest(
                action="REMOVE", entity="coordinator", names=["physics"], users=[str(CORA)]
            )
            await west.call_as(0, "ChangeAccounts", remove)
            assert await owners(east, CORA) == set()
            (cluster, other) = (await east.call_as(ANN, "ListClusters", g.ListClustersRequest())).clusters
            assert [cluster.name, cluster.controller_host, other.name, other.controller_port] == [
                "east", "localhost", "west", west.ports[0],
            ]  # fmt: skip
            west.conf.write_text(west.conf.read_text().replace(PRIVATE, ""))
            await west.call_as(0, "Reconfigure", c.ReconfigureRequest())
            assert await owners(east, EVE) == everything  # nothing is private there any more


#: Each method that reads accounting, of a cluster that is not there.
NAMED: dict[str, Message] = {
    "ListRecords": a.ListRecordsRequest(cluster="mars"),
    "ListAssociations": s.ListAssociationsRequest(cluster="mars"),
    "ListQos": c.ListQosRequest(cluster="mars"),
    "ListCounters": g.ListCountersRequest(cluster="mars"),
    "ListWckeys": g.ListWckeysRequest(cluster="mars"),
    "ListTres": g.ListTresRequest(cluster="mars"),
    "ListResources": g.ListResourcesRequest(cluster="mars"),
    "ListEvents": g.ListEventsRequest(cluster="mars"),
    "ListTransactions": g.ListTransactionsRequest(cluster="mars"),
    "Report": g.ReportRequest(cluster="mars"),
}


@in_loop
async def test_names_and_schemas_that_are_no_clusters(tmp_path: Path, server: Server) -> None:
    place = server.new_database()
    async with pair(tmp_path, place) as (east, _):
        for name in (
            "mars",
            "WEST",
            'we"st',
            "west'; DROP TABLE job; --",
            "public",
            "pg_catalog",
            "penstock_clusters",
            "a" * 200,
        ):
            code, text = await refusal(east, ANN, "ListRecords", a.ListRecordsRequest(cluster=name))
            assert (code, text) == (Code.INVALID_VALUE, f"No cluster '{name}' known by database.")
        for method, request in NAMED.items():
            code, text = await refusal(east, 0, method, request)
            assert (code, text) == (Code.INVALID_VALUE, "No cluster 'mars' known by database."), method
        code, _text = await refusal(east, ANN, "ListRecords", a.ListRecordsRequest(cluster="a" * 300))
        assert code != Code.INTERNAL
        change(place, "CREATE SCHEMA empty")
        change(place, "CREATE SCHEMA other")
        change(place, "CREATE TABLE other.job (secret text)")
        values = "'h', 1, '25.05.0', 1, (SELECT facts FROM penstock_clusters.cluster WHERE name = 'west')"
        for name, schema in (
            ("empty", "empty"),
            ("other", "other"),
            ("gone", "gone"),
            ("quoted", 'we"st'),
            ("cat", "pg_catalog"),
            ("\x1b[2J", "terminal"),
        ):
            change(place, f"INSERT INTO penstock_clusters.cluster VALUES ('{name}', '{schema}', {values})")
        for name in ("empty", "other", "gone"):
            code, text = await refusal(east, ANN, "ListAssociations", s.ListAssociationsRequest(cluster=name))
            assert (code, name in text, "secret" in text) == (Code.CONFIG_INVALID, True, False)
        for name in ("quoted", "cat", "Terminal"):
            code, text = await refusal(east, ANN, "ListQos", c.ListQosRequest(cluster=name))
            assert text == f"No cluster '{name}' known by database."
        listed = (await east.call_as(ANN, "ListClusters", g.ListClustersRequest())).clusters
        assert [one.name for one in listed] == ["east", "empty", "gone", "other", "west"]
        assert {one.controller_host for one in listed if one.name != "east"} == {""}
        assert rows(place, "SELECT count(*) FROM west.job") == [(3,)]
        change(place, "UPDATE west.alembic_version SET version_num = '0001'")
        code, text = await refusal(east, ANN, "ListRecords", a.ListRecordsRequest(cluster="west"))
        assert (code, f"have schema 0001, this program's is {REVISIONS[-1]}" in text) == (Code.CONFIG_INVALID, True)
        change(place, f"UPDATE west.alembic_version SET version_num = '{REVISIONS[-1]}'")
        for facts in ("{}", "x", '{"private_data": "none"}', "[]"):  # rights that cannot be known are nobody's
            change(place, f"UPDATE penstock_clusters.cluster SET facts = '{facts}' WHERE name = 'west'")
            code, text = await refusal(east, 0, "ListRecords", a.ListRecordsRequest(cluster="west"))
            assert (code, "its row in the registry cannot be used" in text) == (Code.CONFIG_INVALID, True)


@in_loop
async def test_a_neighbours_usage_is_read_again_after_a_while(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = server.new_database()
    async with pair(tmp_path, place, "PriorityType=priority/multifactor\n") as (east, _):

        async def used_s() -> int:
            trees = await east.call_as(0, "ListAssociations", s.ListAssociationsRequest(cluster="west"))
            return max(one.usage_s for page in trees for one in page.associations)

        assert await used_s() == 0
        values = f"SELECT assoc_id, {3600 * USAGE_ONE}, {now_us()}, '' FROM west.assoc WHERE user_name = '{ANN}'"
        usage = f"INSERT INTO west.assoc_usage (assoc_id, usage, at_us, tres) {values}"
        change(place, usage)
        change(place, "UPDATE west.meta SET sequence = sequence + 1")
        assert await used_s() == 0  # of the last minute
        monkeypatch.setattr(neighbours, "USAGE_AGE_US", -1)
        assert 3500 < await used_s() <= 3600


@in_loop
async def test_a_neighbour_that_has_moved_or_is_gone_is_noticed_at_once(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a question that repeats another one takes one connection, and no engine of its own."""
    opened: list[str] = []
    real_connected, real_engine = serverwait.connected, read_engine

    def connected(arguments: Mapping[str, object]) -> object:
        opened.append(str(arguments["options"]).partition("search_path=")[2])
        return real_connected(arguments)

    def engine(*arguments: Any, **keywords: Any) -> object:
        opened.append("engine")
        return real_engine(*arguments, **keywords)

    place = server.new_database()
    asked = s.ListAssociationsRequest(cluster="west")
    async with pair(tmp_path, place) as (east, _):
        monkeypatch.setattr(serverwait, "connected", connected)
        monkeypatch.setattr(neighbours, "read_engine", engine)

        async def connections() -> list[str]:
            opened.clear()
            assert (await east.call_as(0, "ListAssociations", asked))[0].cluster == "west"
            return list(opened)

        assert await connections() == ["engine", '"east"', "engine", '"west"']
        assert await connections() == ['"west"']
        change(place, "ALTER SCHEMA west RENAME TO wild")
        code, text = await refusal(east, 0, "ListAssociations", asked)
        assert (code, "its schema does not exist" in text) == (Code.CONFIG_INVALID, True)
        change(place, "UPDATE penstock_clusters.cluster SET schema_name = 'wild' WHERE name = 'west'")
        assert await connections() == ['"west"', "engine", '"wild"']
        change(place, "UPDATE penstock_clusters.cluster SET name = 'wild' WHERE name = 'west'")
        assert await refusal(east, 0, "ListAssociations", asked) == (
            Code.INVALID_VALUE, "No cluster 'west' known by database.",
        )  # fmt: skip
        asked.cluster = "wild"
        assert (await east.call_as(0, "ListAssociations", asked))[0].cluster


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Its processes, and their sockets, are there and do nothing."""
    pids = server.pids()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a connection that has just ended
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # a connection that has just ended
                os.kill(pid, signal.SIGCONT)


@in_loop
async def test_a_frozen_server_holds_nobody_up(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It freezes beneath reads of a neighbour and of the own accounting: each ends with an error, others are answered meanwhile."""
    monkeypatch.setattr(serverwait, "CHECK_S", 0.2)
    place = server.new_database() + "&connect_timeout=2"
    away = (Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY])
    reads = {
        "ListAssociations": s.ListAssociationsRequest(cluster="west"),
        "ListRecords": a.ListRecordsRequest(),
        "Report": g.ReportRequest(kind="WAITS", group_by=["user"], start_at_us=1, end_at_us=now_us()),
    }
    tables = ("west.txn", "east.job")
    async with pair(tmp_path, place) as (east, _):
        for method, request in reads.items():
            await east.call_as(0, method, request)
        name = place.partition("@/")[2].partition("?")[0]
        with psycopg.connect(server.conninfo(name)) as holder:
            holder.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
            asking = [asyncio.create_task(refusal(east, 0, method, request)) for method, request in reads.items()]
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessShareLock'"
            async with asyncio.timeout(ANSWER_S):
                while server.execute(waiting, name) != [(len(reads),)]:
                    await asyncio.sleep(0.02)
            with frozen(server):
                assert (await east.call_as(ANN, "Ping", c.PingRequest())).cluster_name == "east"
                async with asyncio.timeout(END_S):
                    assert await asyncio.gather(*asking) == [away] * len(reads)
                    for method, request in reads.items():  # which finds it frozen
                        assert await refusal(east, 0, method, request) == away, method
                assert (await east.call_as(ANN, "Ping", c.PingRequest())).cluster_name == "east"
        for method, request in reads.items():
            await east.call_as(0, method, request)


@in_loop
async def test_one_name_has_one_schema(tmp_path: Path, server: Server) -> None:
    place = server.new_database()
    async with site(tmp_path / "e", "east", place).controller():
        epoch = rows(place, "SELECT epoch FROM east.meta")
        for number, (name, schema, told) in enumerate((
            ("east", "more", "a cluster east has its tables in the schema 'east', and this one is cluster east with schema more"),
            ("west", "east", "the schema east has the tables of the cluster 'east', and this one is cluster west"),
        )):  # fmt: skip
            with pytest.raises(StoreError, match=told):
                async with site(tmp_path / str(number), name, place, schema=schema).controller():
                    pass
        assert rows(place, "SELECT epoch FROM east.meta") == epoch


@in_loop
async def test_a_cluster_alone_makes_no_registry(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    place = server.new_database()
    alone = site(tmp_path / "a", "alone", place, schema="")
    async with alone.controller():
        assert (await alone.call_as(0, "ListClusters", g.ListClustersRequest())).clusters == []
        assert rows(place, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'penstock%'") == []
    server.execute("DROP ROLE IF EXISTS poor")
    server.execute("CREATE ROLE poor LOGIN")
    change(place, "CREATE SCHEMA poor AUTHORIZATION poor")
    poor = site(tmp_path / "p", "poor", place.replace("penstock@", "poor@"))
    async with poor.controller():
        assert "GRANT CREATE ON DATABASE" in caplog.text and 'TO "poor"' in caplog.text
        assert await owners(poor, 0, "poor") == set()
        async with site(tmp_path / "e", "east", place).controller():
            code, text = await refusal(poor, 0, "ListRecords", a.ListRecordsRequest(cluster="east"))
            assert (code, "the registry of clusters: the controller's role may not read it" in text) == (
                Code.CONFIG_INVALID,
                True,
            )
            change(place, "GRANT USAGE ON SCHEMA penstock_clusters TO poor")
            change(place, "GRANT SELECT ON penstock_clusters.cluster TO poor")
            code, text = await refusal(poor, 0, "ListRecords", a.ListRecordsRequest(cluster="east"))
            assert (
                code,
                "cluster east: its schema does not exist, or the controller's role may not read it" in text,
            ) == (Code.CONFIG_INVALID, True)
            change(place, "GRANT USAGE ON SCHEMA east TO poor")
            change(place, "GRANT SELECT ON ALL TABLES IN SCHEMA east TO poor")
            assert await owners(poor, 0, "east") == set()
    async with alone.controller():  # now there is a registry, which it joins
        assert [one.name for one in (await alone.call_as(0, "ListClusters", g.ListClustersRequest())).clusters] == [
            "alone",
            "east",
        ]


@in_loop
async def test_a_trap_in_the_schema_of_a_neighbour(tmp_path: Path, server: Server) -> None:
    """The role of west replaces a table by a view with a function, which runs with the rights of the role that reads."""
    place = server.new_database()
    server.execute("DROP ROLE IF EXISTS reads")
    server.execute("CREATE ROLE reads LOGIN")
    read_url = f"PenstockDatabaseReadUrl={place.replace('penstock@', 'reads@')}\n"
    async with site(tmp_path / "w", "west", place).controller():
        pass
    east = site(tmp_path / "e", "east", place, read_url)
    async with east.controller():
        for schema in ("penstock_clusters", "west"):
            change(place, f"GRANT USAGE ON SCHEMA {schema} TO reads")
            change(place, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reads")
        asked = s.ListAssociationsRequest(cluster="west")
        assert (await east.call_as(0, "ListAssociations", asked))[0].cluster == "west"
        change(place, "ALTER TABLE west.txn RENAME TO txn_there")
        body = "SELECT holder FROM east.meta"
        change(place, f"CREATE FUNCTION west.trap() RETURNS text LANGUAGE sql AS '{body}'")
        change(place, "CREATE VIEW west.txn AS SELECT * FROM west.txn_there WHERE west.trap() IS NOT NULL")
        change(place, "GRANT SELECT ON west.txn TO reads")
        assert rows(place, "SELECT west.trap() IS NULL") == [(False,)]  # who may read east, falls into it
        code, text = await refusal(east, 0, "ListAssociations", asked)
        assert (code, "cluster west: the controller's role may not read it" in text) == (Code.CONFIG_INVALID, True)
