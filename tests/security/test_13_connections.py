"""Item 13: one user's connections, to the auth socket or to the controller, keep nobody else out."""

import asyncio
import contextlib
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from netns import Machines
from patience import ANSWER_S, LONGEST_S

from ctld.rpc import server
from ctld.rpc.gate import connections
from ctld.rpc.gate.connections import ConnectionLimits, Connections
from penstock.calls import FAILURES, TryAgain
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.security import authd
from penstock.security.authd import AuthServer
from penstock.security.ca import create_ca, ensure_controller
from penstock.security.peers import LocalUsers, tcp_key, unix_uid, user_key
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.transport import dial, fetch_token
from penstock.v1 import controller_pb2
from tests.rpc.clusterkit import Process, Site, jobs_of, submit

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
#: Connects to a path or a port so often, as nobody if it is to, and says so; then holds on until its input ends.
IDLER = """
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
if len(sys.argv) < 4:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
host, _, port = sys.argv[1].partition(":")
held = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_INET if port else socket.AF_UNIX)
    held.append(one)
    one.connect((host, int(port)) if port else host)
print("connected", flush=True)
sys.stdin.read()
"""
#: Becomes nobody and connects in a loop with several threads, without ever reading, until its input ends; after so many
#: seconds, if they are given, it says how often it has.
FLOODER = """
import os, socket, sys, threading, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
made = [0]
def flood():
    held = []
    while True:
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        try:
            one.connect(sys.argv[1])
        except OSError:
            one.close()
            continue
        made[0] += 1
        held.append(one)
        if len(held) > 100:
            held.pop(0).close()
for _ in range(4):
    threading.Thread(target=flood, daemon=True).start()
print("connected", flush=True)
if len(sys.argv) > 2:
    time.sleep(int(sys.argv[2]))
    print(made[0], flush=True)
sys.stdin.read()
"""


def run(story):
    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


@pytest.fixture
def open_folder():
    """A folder that others can pass through; pytest's own cannot be entered by them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def attacker(program: str, *words: str, prefix: Sequence[str] = ()):
    """The program, once it has said that it is at it; ended at the end. `prefix`: of the command line."""
    command = [*prefix, sys.executable, "-I", "-S", "-c", program, *words]
    child = subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdout.readline() == b"connected\n"
        yield child
    finally:
        child.kill()
        child.communicate()


class Served:
    """An auth socket, and the verifier that believes it."""

    def __init__(self, folder: Path) -> None:
        now = lambda: time.time_ns() // 1000  # noqa: E731
        self.path = folder / "auth.sock"
        ca = create_ca(folder / "ca", "c", now())
        self.verifier = TokenVerifier(ca.certificate, "c", now())
        issuer = TokenIssuer(ensure_controller(folder / "ca", "h", ("localhost",), now()))
        self.server = AuthServer(self.path, issuer, now)

    def run(self, action):
        async def go():
            self.server.start()
            try:
                return await asyncio.to_thread(action)
            finally:
                self.server.close()

        return asyncio.run(go())


# ---- the line of those who connect


def full_listener(path: Path) -> tuple[socket.socket, list[socket.socket]]:
    """A listener whose backlog is full."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    held = []
    while True:
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        held.append(one)
        try:
            one.connect(str(path))
        except BlockingIOError:
            return listener, held


def test_a_client_that_finds_the_line_full_waits_for_room(tmp_path):
    listener, held = full_listener(tmp_path / "s")
    with pytest.raises(TryAgain) as full:  # nobody makes room: it may pass, and somebody is there
        fetch_token(str(tmp_path / "s"), 0.05)
    assert full.value.seen

    def make_room():
        while True:
            with contextlib.suppress(OSError):
                one, _ = listener.accept()
                with one:
                    one.send(b"token")
                continue
            return

    with contextlib.ExitStack() as ends:
        room = threading.Thread(target=make_room)
        ends.callback(room.join)
        ends.callback(listener.shutdown, socket.SHUT_RDWR)
        room.start()
        assert fetch_token(str(tmp_path / "s"), ANSWER_S) == b"token"
        from penstock.aclient import fetch_token as fetch_beside

        assert asyncio.run(fetch_beside(str(tmp_path / "s"), ANSWER_S)) == b"token"
    for one in held:
        one.close()


def test_an_asyncio_client_does_not_take_a_full_line_for_a_connection(tmp_path):
    from penstock.aclient import fetch_token as fetch_beside

    _listener, held = full_listener(tmp_path / "s")
    with pytest.raises(TryAgain):
        asyncio.run(fetch_beside(str(tmp_path / "s"), 0.1))
    for one in held:
        one.close()


def test_commands_that_find_the_controllers_line_full_wait_too(tmp_path):
    _listener, held = full_listener(tmp_path / "ctld.sock")
    cluster = ClusterFile("c", "h", socket=str(tmp_path / "ctld.sock"), auth_socket="", address="", ca="", path="")
    with pytest.raises(TryAgain) as full:
        dial(cluster, 0.05)
    assert full.value.seen
    for one in held:
        one.close()


def test_a_user_has_a_bounded_line_and_users_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(authd, "USER_WAITING_MAX", 5)
    monkeypatch.setattr(authd, "WAITING_MAX", 8)
    monkeypatch.setattr(authd, "TOKENS_PER_TURN_MAX", 1)
    order: list[int] = []

    uids = iter([1] * 7 + [2, 3, 3, 3])  # the kernel's word, as this test wants it
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: struct.pack("iII", 0, next(uids), 0))

    class Issuer:
        def issue(self, uid: int, gid: int, now_us: int) -> bytes:
            order.append(uid)
            return b"%d" % uid

    async def story():
        server = AuthServer(tmp_path / "auth.sock", cast(Any, Issuer()), lambda: 0)
        server.start()
        clients = [socket.socket(socket.AF_UNIX) for _ in range(11)]
        for one in clients:
            one.connect(str(tmp_path / "auth.sock"))
        for one in clients:
            one.setblocking(False)
        async with asyncio.timeout(ANSWER_S):  # all are taken at once: so many can come in one turn of the loop
            answers = [await asyncio.get_running_loop().sock_recv(one, 100) for one in clients]
        assert server.waiting_users == []
        server.close()
        for one in clients:
            one.close()
        return server.turned_away, answers

    turned_away, answers = asyncio.run(story())
    # of the first user two are beyond their limit of five, and one makes room for the third user's last
    assert turned_away == 3 and order == [1, 2, 3, 1, 3, 1, 3, 1]
    assert answers == [b"1"] * 4 + [b""] * 3 + [b"2", b"3", b"3", b"3"]


@pytest.mark.root
@as_root
def test_a_flood_of_one_user_lets_every_call_of_another_through(open_folder):
    served = Served(open_folder)
    failed = 0

    def thirty():
        nonlocal failed
        with attacker(FLOODER, str(served.path)):
            for _ in range(30):
                try:
                    served.verifier.verify(fetch_token(str(served.path), ANSWER_S), time.time_ns() // 1000)
                except TryAgain:
                    failed += 1

    served.run(thirty)
    assert failed == 0
    assert served.server.waiting_users == []


# ---- the controller's own connections


def named(clients: list[socket.socket], path: str, uid: int, count: int) -> None:
    """Connections that a test takes for those of that user: their own names say so."""
    for _ in range(count):
        one = socket.socket(socket.AF_UNIX)
        one.bind(f"\0penstock-test-{os.getpid()}-{uid}-{len(clients)}-{time.monotonic_ns()}")
        one.connect(path)
        clients.append(one)


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True


@pytest.fixture
def looked(tmp_path, monkeypatch):
    """A listener with accepted connections in this process, and what looks at them."""
    path = str(tmp_path / "ctld.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(512)
    monkeypatch.setattr(connections, "unix_uid", lambda one: int(one.getpeername().decode().split("-")[3]))
    accepted: list[socket.socket] = []

    class Looked:
        def __init__(self) -> None:
            self.clients: list[socket.socket] = []

        def come(self, uid: int, count: int) -> list[socket.socket]:
            before = len(self.clients)
            named(self.clients, path, uid, count)
            accepted.extend(listener.accept()[0] for _ in range(count))
            return self.clients[before:]

        def watch(self, limits: ConnectionLimits, *exempt: int) -> Connections:
            found = Connections([path], 0, 0, limits, exempt)
            made.append(found)
            return found

    made: list[Connections] = []
    found_by_test = Looked()
    yield found_by_test
    for one in (*accepted, *found_by_test.clients, listener):
        one.close()
    for found in made:
        found.stop()


def test_the_newest_connections_of_who_has_too_many_are_closed(looked):
    watch = looked.watch(ConnectionLimits(peer=4, node_peer=9, commands=100, nodes=100))
    old, other = looked.come(7, 3), looked.come(8, 2)
    watch.check()
    new = looked.come(7, 5)
    watch.check()
    assert all(map(is_open, (*old, *other)))
    assert sum(map(is_open, new)) == 1 and watch.turned_away == 4
    watch.check()
    assert watch.turned_away == 4


def test_when_there_is_no_room_those_who_have_most_make_it(looked):
    watch = looked.watch(ConnectionLimits(peer=100, node_peer=9, commands=10, nodes=100))
    most, few = looked.come(7, 20), [one for uid in (8, 9, 10) for one in looked.come(uid, 2)]
    watch.check()
    assert all(map(is_open, few)) and sum(map(is_open, most)) == 4


def test_who_runs_the_controller_is_not_limited(looked):
    watch = looked.watch(ConnectionLimits(peer=1, node_peer=1, commands=2, nodes=2), 7)
    mine = looked.come(7, 20)
    watch.check()
    assert all(map(is_open, mine)) and watch.turned_away == 0


def test_a_look_needs_no_free_descriptor(looked):
    watch = looked.watch(ConnectionLimits(peer=1, node_peer=1, commands=2, nodes=2))
    crowd = looked.come(7, 9)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        watch.check()
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(map(is_open, crowd)) == 1


def test_whose_tcp_connection_it_is():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        accepted, _ = listener.accept()
        with accepted:
            assert tcp_key(accepted, LocalUsers()) == user_key(os.geteuid())
            one.close()
    if socket.has_dualstack_ipv6():
        with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
            for host in ("127.0.0.1", "::1"):
                with socket.create_connection((host, listener.getsockname()[1])):
                    accepted, _ = listener.accept()
                    with accepted:
                        assert tcp_key(accepted, LocalUsers()) == user_key(os.geteuid())
    left, right = socket.socketpair()
    with left, right:
        assert unix_uid(left) == os.geteuid()


def test_a_closed_connection_lends_its_port_no_owner():
    """The kernel shows uid 0 for closed connections, and root is not limited: a user whose port has one is still that user."""
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as listener:
        port = 0
        for server in (other, listener):
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", port))
                one.connect(server.getsockname())
                accepted, _ = server.accept()
                ends = one.getsockname(), server.getsockname()
                with accepted:
                    assert LocalUsers().of(*ends) == os.geteuid()
                    assert tcp_key(accepted, LocalUsers()) == user_key(os.geteuid())
                    one.close()  # the side that closes first keeps the port, in TIME_WAIT
                    assert tcp_key(accepted, LocalUsers()) == "127.0.0.1"
                assert LocalUsers().of(*ends) is None
                port = ends[0][1]


def test_a_connection_that_came_after_the_table_was_read_is_its_owners_later(monkeypatch):
    """Otherwise it would be counted for the address, which has a share of its own, for as long as it lasts."""
    find = LocalUsers.of
    monkeypatch.setattr(LocalUsers, "of", lambda users, own, other: None)
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as held:
        watch = Connections(
            [], listener.getsockname()[1], 0, ConnectionLimits(peer=4, node_peer=9, commands=100, nodes=100)
        )
        try:
            for number in range(6):
                held.enter_context(socket.create_connection(listener.getsockname()))
                held.enter_context(listener.accept()[0])
                if number == 2:
                    watch.check()
                    monkeypatch.setattr(LocalUsers, "of", find)
            watch.check()
            assert watch.turned_away == 2
        finally:
            watch.stop()


def test_a_number_that_another_file_has_meanwhile_ends_no_checks(tmp_path: Path) -> None:
    """Between the listing of a socket and the look at it the socket was closed, and a file has its number."""
    watch = Connections([], 0, 0, ConnectionLimits(peer=4, node_peer=9, commands=100, nodes=100))
    was = connections.Known(1, "commands", "x")
    with (tmp_path / "other").open("wb") as other:
        files = len(os.listdir("/proc/self/fd"))
        assert watch.identify(other.fileno(), was, LocalUsers()) == connections.Known(0)
        watch.shut(other.fileno(), was)
        assert len(os.listdir("/proc/self/fd")) == files and not watch.turned_away
    watch.stop()


def test_limits_leave_descriptors_for_nodes_and_for_the_controller():
    for files in (256, 1024, 20_000, 524_288):
        limits = ConnectionLimits.of(files)
        assert limits.commands + limits.nodes <= files * 3 // 4
        assert limits.peer <= limits.commands // 4 and limits.node_peer <= limits.nodes // 2


def test_a_connection_that_says_nothing_is_closed(tmp_path, monkeypatch):
    short = [(k, 300 if k == "grpc.server_handshake_timeout_ms" else v) for k, v in server.OPTIONS]
    monkeypatch.setattr(server, "OPTIONS", tuple(short))

    async def story():
        site = Site(tmp_path)
        async with site.controller():
            silent = [
                await asyncio.open_unix_connection(str(site.state / "ctld.sock")),
                *[await asyncio.open_connection("127.0.0.1", port) for port in site.ports],
            ]
            for reader, writer in silent:
                async with asyncio.timeout(ANSWER_S):
                    while await reader.read(4096):
                        pass
                writer.close()

    run(story)


@pytest.mark.root
@as_root
@pytest.mark.parametrize("door", ["ctld.sock", "calls.sock", "SlurmctldPort"])
def test_idle_connections_of_one_user_keep_nobody_out(open_folder, monkeypatch, door):
    monkeypatch.setattr(connections, "PEER_MAX", 20)

    async def story():
        site = Site(open_folder)
        async with site.controller() as controller, site.client() as client:
            address = f"127.0.0.1:{site.ports[0]}" if door == "SlurmctldPort" else str(site.state / door)
            with contextlib.ExitStack() as attacked:
                await asyncio.to_thread(attacked.enter_context, attacker(IDLER, address, "300"))
                async with asyncio.timeout(ANSWER_S):
                    while controller.connections.turned_away < 280:
                        await asyncio.sleep(0.01)
                assert controller.connections.turned_away == 280
                job_id = await submit(client)  # over calls.sock
                assert [job.job_id for job in await jobs_of(client)] == [job_id]  # auth.sock and ctld.sock

    run(story)


@pytest.mark.root
def test_other_machines_are_counted_by_their_addresses():
    """Each has its share, and the silent one of them no more."""
    with socket.create_server(("", 0), backlog=256) as listener, Machines(2) as machines:
        port = listener.getsockname()[1]
        watch = Connections([], port, 0, ConnectionLimits(peer=4, node_peer=9, commands=100, nodes=100))
        accepted = []
        try:
            with contextlib.ExitStack() as attackers:
                for machine, number in zip((machines[0], machines[1]), (9, 2), strict=True):
                    words = f"{machine.here}:{port}", str(number), "root"
                    attackers.enter_context(attacker(IDLER, *words, prefix=machine.prefix))
                    accepted.append([listener.accept()[0] for _ in range(number)])
                keys = [{tcp_key(one, LocalUsers()) for one in some} for some in accepted]
                assert len(keys[0]) == len(keys[1]) == 1 and keys[0] != keys[1]
                watch.check()
                assert watch.turned_away == 5
                assert [sum(map(is_open, some)) for some in accepted] == [4, 2]
        finally:
            watch.stop()
            for one in (*accepted[0], *accepted[-1]):
                one.close()


@pytest.mark.root
@as_root
def test_connect_loops_at_the_auth_socket_let_every_listing_of_another_through(open_folder):
    """A listing takes a token for each call."""

    async def story():
        site = Site(open_folder)
        controller = Process(site)
        try:
            await controller.up()
            with attacker(FLOODER, str(site.state / "auth.sock")):
                async with site.client() as client:
                    for _ in range(43):
                        assert await jobs_of(client) == []
            assert controller.stop() == 0
        finally:
            controller.kill()

    run(story)


@pytest.mark.slow
@pytest.mark.root
@as_root
def test_5_s_of_connect_loops_fail_no_call_of_another(open_folder):
    """38 of 43 calls failed once. Each takes a token of its own, and the next one begins until the loops are over."""

    async def story():
        site = Site(open_folder)
        controller = Process(site)
        calls, failed = 0, 0
        try:
            await controller.up()
            with attacker(FLOODER, str(site.state / "auth.sock"), "5") as loops:
                over = asyncio.create_task(asyncio.to_thread(loops.stdout.readline))
                async with site.client() as client:
                    while not over.done() or calls < 43:
                        calls += 1
                        try:
                            assert await jobs_of(client) == []
                        except FAILURES:
                            failed += 1
                assert int(await over) > 1_000
            assert controller.stop() == 0
        finally:
            controller.kill()
        print(f"{failed} of {calls} calls of another user failed")  # shown with -rP
        assert failed == 0

    run(story)


@pytest.mark.slow
@pytest.mark.root
@as_root
def test_24000_idle_connections_of_one_user_keep_nobody_out(open_folder):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    each = min(12_000, files - 100)

    async def story():
        site = Site(open_folder)
        controller = Process(site)
        try:
            await controller.up()
            path = str(site.state / "ctld.sock")
            with attacker(IDLER, path, str(each)), attacker(IDLER, path, str(each)):
                async with site.client() as client:
                    for number in range(1, 31):
                        await submit(client)
                        assert len(await jobs_of(client)) == number
                with Client(site.cluster(), ANSWER_S) as plain:
                    for _ in range(30):
                        plain.call("Ping", controller_pb2.PingRequest())
                async with asyncio.timeout(ANSWER_S):  # the calls may be over before the excess is closed
                    while len(os.listdir(f"/proc/{controller.child.pid}/fd")) >= 2 * connections.PEER_MAX:
                        await asyncio.sleep(0.1)
            assert controller.stop() == 0
        finally:
            controller.kill()

    run(story)


def test_the_refusal_of_a_closed_connection_is_one_that_may_pass(tmp_path):
    """A client that was hung up on tries again, until its deadline."""
    where = tmp_path / "auth.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(where))
    listener.listen(16)
    turns = 3

    def serve():
        for turn in range(turns + 1):
            one, _ = listener.accept()
            with one:
                if turn == turns:
                    one.send(b"token")

    thread = threading.Thread(target=serve)
    thread.start()
    cluster = ClusterFile("c", "h", auth_socket=str(where), socket="", address="", ca="", path="")
    caller = Client(cluster, ANSWER_S)
    tokens: list[bytes] = []
    # private: how often it tries, without a controller behind it
    caller._persist(lambda left_s, _: tokens.append(fetch_token(str(where), left_s)), caller._attempts("Ping", None))
    thread.join()
    assert tokens == [b"token"]
    listener.close()
