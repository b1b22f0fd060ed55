"""Attacks of a hostile user on a step's supervisor from inside the user's own step, and exhausted resources of the
node: the supervisor, which is root's, survives them."""

import asyncio
import contextlib
import errno
import os
import random
import resource
import select
import signal
import socket
import sys
import threading
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oddmessages import odd_message
from patience import ANSWER_S

from nodedaemon.base import orders, scripts, topology_info
from nodedaemon.core.messages import StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon import stream_port, supervisors
from nodedaemon.daemon.launcher import Launcher
from nodedaemon.launch import wire
from nodedaemon.launch.site import Site
from nodedaemon.launch.wire_steps import RANKS_MAX
from nodedaemon.mpi import pmi, pmi_plug
from nodedaemon.spool.steprecord import STEPD, Claim, read_record
from nodedaemon.stepd import control, namespace, task
from nodedaemon.stepd.streams import INPUT_BYTES_MAX, KEPT_WORDS_BYTES_MAX, StreamHub, set_window
from nodedaemon.stepd.taskrecord import Task
from penstock.eventloop import Loop
from penstock.v1 import steps_pb2
from penstock.values.errors import BadValue
from penstock.values.packing import pack_values
from penstock.values.rlimits import RLIMITS
from penstock.values.stepframes import HEAD, NO_TASK, FrameKind, FrameReader, StreamRole, asking_key
from tests.node.fakectl import IO_KEY, cluster, make_step_launch
from tests.node.stepdkit import supervisor
from tests.node.streamclient import Client


@pytest.fixture
def hub():
    made = StreamHub(Loop())
    made.open()
    yield made
    made.close()


# -- PMI: whatever a task writes to its descriptor


def server() -> pmi.PmiServer:
    return pmi.PmiServer(pmi.PmiStep(b"7.0", 1, 0, 1, [0]))


@pytest.mark.parametrize(
    "line",
    [
        b"cmd=getbyidx idx=" + b"9" * 5000,  # more digits than int() takes
        b"cmd=abort exitcode=--5",
        b"cmd=abort exitcode=-",
        b"cmd=abort exitcode=" + b"1" * 5000,
    ],
)
def test_numbers_that_are_none(line):
    made = server()
    made.received(0, line + b"\n")
    assert made.broken == []


#: What libraries say, by PMI-1 and PMI-2.
_WORDS = st.sampled_from(
    b"init get_maxes get_appnum get_universe_size get_my_kvsname put get getbyidx barrier_in publish_name unpublish_name "
    b"lookup_name spawn finalize abort fullinit job-getid info-getjobattr info-putnodeattr info-getnodeattr kvs-put "
    b"kvs-get kvs-fence".split()
)
_KEYS = st.sampled_from([b"key", b"value", b"idx", b"exitcode", b"pmi_version", b"wait", b"thrid", b"kvsname", b"x"])
_TEXT = st.one_of(st.binary(max_size=12), st.sampled_from([b"-", b"--1", b"TRUE", b"9" * 5000, b"PMI_process_mapping"]))


@given(st.lists(st.tuples(_WORDS, st.dictionaries(_KEYS, _TEXT, max_size=4), st.booleans()), max_size=6))
def test_any_command_with_any_words(said):
    made = server()
    for name, words, is_framed in said:
        if is_framed:
            body = b"cmd=" + name + b";" + b"".join(key + b"=" + text + b";" for key, text in words.items())
            made.received(0, b"%6d" % len(body) + body)
        else:
            made.received(0, b" ".join([b"cmd=" + name, *(k + b"=" + t for k, t in words.items())]) + b"\n")


@given(st.binary(max_size=300))
def test_any_bytes_as_pmi(data):
    server().received(0, data)


def test_questions_that_wait_do_not_hold_what_came_with_them():
    made = server()
    junk = b"cmd=info-getnodeattr;key=k;wait=TRUE;junk=" + b"x" * 60_000 + b";"
    for _ in range(pmi.WAITING_MAX_A_TASK):
        made.received(0, b"%6d" % len(junk) + junk)
    held = sum(len(value) for _, message in made.waiting for value in message.words.values())
    assert (len(made.waiting), held < 64 * 1024) == (pmi.WAITING_MAX_A_TASK, True)
    long = b"cmd=info-getnodeattr;wait=TRUE;key=" + b"k" * 60_000 + b";"
    made.received(0, b"%6d" % len(long) + long)
    assert made.replies[-1][1].count(b"rc=-1")


def test_a_helper_that_never_stops_talking_does_not_hold_up_the_end(monkeypatch):
    """pmixd is the user's process: the user may have it send single bytes endlessly."""
    monkeypatch.setattr(pmi_plug, "PMIXD_WAIT_S", 0.2)
    plug = pmi_plug.PmixPlug(orders.LaunchOrder(key="1.1.0", mpi="pmix"))
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: (ours, theirs.dup()))
    monkeypatch.setattr(os, "fork", lambda: 2**22 + 1)  # we are the helper
    step: Any = types.SimpleNamespace(loop=Loop(), tasks=types.SimpleNamespace(have_ended=True))
    plug.open(step)
    gone = threading.Event()

    def chatter() -> None:
        try:
            while True:
                theirs.send(b"x")
                gone.wait(0.05)
        except OSError:  # it has hung up
            gone.set()

    talker = threading.Thread(target=chatter, daemon=True)
    talker.start()
    task: Any = types.SimpleNamespace(rank=0)
    plug.ended(task)
    assert gone.wait(ANSWER_S)
    talker.join(ANSWER_S)
    theirs.close()


# -- streams


@pytest.mark.parametrize(("rows", "columns"), [(-1, 80), (24, -(1 << 70)), (1 << 70, 1 << 70)])
def test_a_window_of_any_size(rows, columns):
    ours, theirs = os.openpty()
    set_window(ours, rows, columns)
    os.close(ours)
    os.close(theirs)


def test_input_byte_by_byte_costs_no_more_than_its_bytes(hub, monkeypatch):
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    hub.add_input(write_end, 0)
    size = 200_000  # beyond what the pipe takes
    for number in range(size):
        assert hub.take_stdin(0, b"%d" % (number % 10), False)
    writes, plain_write = [], os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (writes.append(len(data)), plain_write(fd, data))[1])
    got = os.read(read_end, 1 << 20)
    while len(got) < size:
        hub.loop.turn()
        got += os.read(read_end, 1 << 20)
    assert got == b"0123456789" * (size // 10)
    assert len(writes) <= size // 2048  # one a piece that was kept
    assert not hub.take_stdin(0, b"x" * (INPUT_BYTES_MAX + 70_000), False)
    os.close(read_end)


def test_words_of_stepd_are_not_kept_without_end_for_an_owner_who_takes_nothing(hub):
    class Owner:
        def close(self) -> None:
            pass

        def pump(self) -> None:
            pass

    hub.take_owner(Owner())
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    hub.add_input(write_end, 0)
    note = b"n" * 60_000
    for _ in range(100):
        hub.send(FrameKind.NOTE, note)
    assert hub.kept.size < KEPT_WORDS_BYTES_MAX + 2 * len(note)
    size = hub.kept.size
    for _ in range(1000):
        assert hub.take_stdin(0, b"x", True)
        os.read(read_end, 10)
    assert hub.kept.size == size
    hub.acknowledge(hub.kept.end)
    reader = FrameReader()
    for number in range(hub.kept.first, hub.kept.next):
        reader.feed(bytes(hub.kept.read(number, 0)))
    assert [(kind, payload) for kind, _, _, payload in iter(reader.take, None)] == [(FrameKind.STDIN_TAKEN, b"1000")]
    os.close(read_end)


ODD = [
    b"", b"1", b"-1", b"64", b"9" * 5000, b"\xff", b"pids", b"usage", pack_values(-1, 80), pack_values(1 << 70, -5),
    pack_values(1), pack_values("x", "y"), b"\xff" * 40,
]  # fmt: skip
FRAMES = st.lists(
    st.tuples(
        st.sampled_from([*(int(kind) for kind in FrameKind), 0, 200]), st.integers(0, 255), st.sampled_from([0, 1, 7, NO_TASK]),
        st.one_of(
            st.binary(max_size=20), st.sampled_from([b"", b"1", b"-1", b"15", b"64", b"9" * 5000, b"pids", b"usage"]),
            st.builds(pack_values, st.integers(-(1 << 70), 1 << 70), st.integers(-5, 5)),
        ),
    ),
    max_size=8,
)  # fmt: skip


def test_any_frames_after_the_right_key_and_before(tmp_path):
    """The step lives through all of it, and ends as its task does."""
    found: list[list[tuple[int, int, int, bytes]]] = []

    @given(FRAMES)
    def collect(some):
        found.append(some)

    collect()
    for kind in (*range(8), *(int(kind) for kind in FrameKind)):
        found.extend([(kind, 0, 0, payload)] for payload in ODD)
        found.extend([(kind, 0, NO_TASK, payload)] for payload in ODD[:4])

    def storm(port: int) -> None:
        for number, some in enumerate(found):
            with contextlib.suppress(OSError):
                client = Client(port, (1, 1, 0))
                if number % 8:
                    client.hello(IO_KEY, StreamRole(0 if number % 3 else number % 2 + 1), 0)
                for kind, stream, rank, payload in some:
                    is_fatal = kind == FrameKind.SIGNAL and payload in (b"15", b"64", b"1")
                    if not is_fatal:
                        client.sock.sendall(HEAD.pack(kind, stream, rank, len(payload)) + payload)
                client.sock.close()
            with socket.create_connection(("127.0.0.1", port)) as raw, contextlib.suppress(OSError):
                raw.sendall(b"PENSTOCK-STEP/1 1.1.%d\n" % (-4 - number % 3) + b"".join(x[3] for x in some))

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            gate = tmp_path / "gate"
            controller.launch_step(
                1, ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done; exit 7"], spec={"pty": True}
            )
            await controller.step_started(1, 0)
            await asyncio.to_thread(storm, controller.registrations[-1].stream_port)
            assert controller.exits(1) == []
            gate.touch()
            ended = await controller.step_exited(1, 0)
            assert (ended.exit.code, ended.failure) == (7, "")
            assert "supervisor" not in daemon.text()

    asyncio.run(scenario())


# -- a node that has run out of something


def test_no_process_for_a_note_ends_nobody(tmp_path, monkeypatch):
    def no_process() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", no_process)
    with open(tmp_path / "err", "wb") as file:
        step = supervisor()
        step.tasks.error_fd = file.fileno()
        step.handle_signal((), orders.SCOPE_ALL, "CANCELLED")
    assert (tmp_path / "err").read_bytes() == b""


def test_a_task_that_has_become_somebody_else_cannot_be_signalled_and_that_is_all(monkeypatch):
    def refuse(pid: int, signum: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(os, "kill", refuse)
    one = Task(orders.TaskOrder(0), False)
    one.pid = 1
    step = supervisor()
    step.tasks.all = [one]
    step.tasks.signal(15)
    step.handle_signal((15,), orders.SCOPE_BATCH, "")


def test_a_launcher_without_descriptors_says_so_and_goes_on(monkeypatch):
    def no_pair(*args: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    here, there = socket.socketpair()
    heard, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    context: Any = types.SimpleNamespace(lacks_tls=False, packets=packets)
    one = Launcher(context, there, -1)
    monkeypatch.setattr(socket, "socketpair", no_pair)
    heard.settimeout(ANSWER_S)
    with here, heard, packets:
        for key in ("1.1.-5", "2.1.-5"):
            here.sendall(orders.LaunchOrder(key=key).encode())
            one.turn()
            assert heard.recv(4096) == orders.stepds_ended([(key, os.EX_OSERR << 8)])
        here.close()
        one.run()  # to its end
    signal.set_wakeup_fd(-1)


def test_a_port_without_descriptors_rests_and_takes_who_waited(monkeypatch):
    monkeypatch.setattr(stream_port, "PAUSE_S", 0.05)

    class Poor(socket.socket):
        tries = 0

        def accept(self):
            Poor.tries += 1
            if Poor.tries == 1:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    async def scenario():
        real = stream_port.open_port("", 0, False)
        listener = Poor(fileno=real.detach())
        port = stream_port.StreamPort(listener, lambda key: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(b"PENSTOCK-STEP/1 1.1.0\n")
        async with asyncio.timeout(ANSWER_S):
            assert (await reader.readline()).startswith(b"no step 1.1.0 is no")
        assert Poor.tries <= 4  # one a rest, and not as often as the loop turns
        writer.close()
        port.close()

    asyncio.run(scenario())


# -- what a launch may say


def test_only_limits_that_are_propagated_can_be_set():
    """RTPRIO and NICE would let a job starve the node's daemons; the others are not a submission's either."""
    asked = dict.fromkeys((name for name in dir(resource) if name.startswith("RLIMIT_")), -1)
    numbers = {number for number, _ in task.known_limits(asked)}
    assert numbers == {getattr(resource, f"RLIMIT_{name}") for name in RLIMITS}
    assert not numbers & {resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE}


@pytest.mark.parametrize(
    "lines",
    [["0-499," * 3000], ["0-499"] * (RANKS_MAX // 500 + 1), ["9" * 65], ["0-" + "9" * 5000]],
)
def test_lines_of_multi_prog_that_only_make_work(lines):
    message = make_step_launch(1, [], ranks=tuple(range(500)))
    message.step.spec.multi_prog.extend(steps_pb2.RankCommand(ranks=text.strip(","), argv=[b"x"]) for text in lines)
    with pytest.raises(BadValue, match="not a list of task ranks|more than [0-9]+ ranks"):
        wire.launch_order(message, wire.NodeFacts("n1", "n1", "", Site(topology_info.flat(2))))


# -- what goes on without end


@pytest.mark.parametrize("junk", [b"x", b"y" * control.TOKEN_BYTES, b"z" * 4000, b""])
def test_who_floods_a_control_socket_does_not_fill_its_queue(junk):
    """Otherwise any user of the node could keep signals and connections from any step on it."""
    ours, token = control.open_control()
    where = ours.getsockname() + token
    with ours, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as stranger:
        for _ in range(2000):  # far more than any queue holds
            stranger.sendto(junk, ours.getsockname())
            stranger.sendto(token[:-1] + bytes([token[-1] ^ 1]) + junk, ours.getsockname())
        order = orders.encode_signals("1.1.0", (15,), orders.SCOPE_ALL, "n" * 1000)
        control.send(stranger, where, order)
        assert control.without_token(ours.recv(4096), token) == order
        with pytest.raises(BlockingIOError):
            ours.recv(4096)


def test_only_the_step_that_is_asked_can_answer():
    ours, token = control.open_control()
    asked = control.connected(ours.getsockname() + token)
    assert asked is not None
    with ours, asked, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        with pytest.raises(PermissionError):  # by the kernel, which wakes nobody for it
            stranger.sendto(b"began", asked.getsockname())
        control.send(asked, ours.getsockname() + token, b"?")
        _, _, _, sender = ours.recvmsg(100)
        ours.sendto(b"began", sender)
        assert asked.recv(100) == b"began"
    assert control.connected(b"\0none!" + token) is None


def datagram_addresses(pid: int) -> list[str]:
    """Of the process's datagram sockets, "" for one that nobody can send to."""
    links = [os.path.realpath(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    own = {link.rpartition("[")[2].rstrip("]") for link in links if "socket:[" in link}
    with open("/proc/net/unix") as table:
        rows = [row.split() for row in table]
    return [" ".join(row[7:]) for row in rows if row[6] in own and row[4] == "0002"]


def test_a_node_daemon_has_no_address_that_a_job_could_flood(tmp_path):
    """Of one that was started again, the sockets for reports of adopted steps are connected: they take nothing of others."""

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, daemon):
            controller.launch(1, "sleep 1000", work_dir=str(tmp_path).encode())
            await controller.started(1)
            assert not any(datagram_addresses(daemon.process.pid))
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            assert "adopted" in daemon.text()
            found = datagram_addresses(daemon.process.pid)
            assert len([one for one in found if one]) == 1 and "" in found
            for address in filter(None, found):
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger, pytest.raises(PermissionError):
                    stranger.sendto(b"x", "\0" + address.removeprefix("@"))

    asyncio.run(scenario())


def test_a_storm_of_orphans_leaves_time_for_orders(monkeypatch):
    step = supervisor()
    step.tasks.all = [Task(orders.TaskOrder(0), False)]  # it has not ended
    used = resource.getrusage(resource.RUSAGE_SELF)
    monkeypatch.setattr(os, "wait4", lambda pid, options: (99999, 0, used))
    assert step.reap()
    step.loop.turn()  # and comes back to it


def dies(pid: int) -> bool:
    """A signal that was sent takes a moment to be obeyed."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    found = poll.poll(10_000)
    os.close(pidfd)
    return bool(found)


def test_a_program_that_is_killed_takes_a_long_line_of_descendants_along(tmp_path):
    """Each in a session of its own; a parent that dies first would hide its children."""
    chain = (
        "import os, sys, time\n"
        "for _ in range(20):\n"
        "    os.setsid() if os.getpid() != os.getsid(0) else None\n"
        f"    os.write(os.open({str(tmp_path / 'pids')!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), b'%d\\n' % os.getpid())\n"
        "    if os.fork():\n"
        "        time.sleep(1000)\n"
        "time.sleep(1000)\n"
    )
    for _ in range(3):
        outcome = scripts.run([sys.executable, "-c", chain], {}, 1.0)
        assert outcome.timed_out
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert len(pids) > 5
        assert [pid for pid in pids if not dies(pid)] == []
        (tmp_path / "pids").unlink()


def test_a_folder_that_is_filled_while_it_is_emptied(tmp_path, monkeypatch):
    monkeypatch.setattr(namespace, "SWEEP_S", 0.2)
    folder = tmp_path / "private"
    folder.mkdir()
    over = threading.Event()

    def fill() -> None:
        number = 0
        while not over.is_set():
            with contextlib.suppress(OSError):
                (folder / str(number)).touch()
            number += 1

    filler = threading.Thread(target=fill, daemon=True)
    filler.start()
    with contextlib.suppress(OSError):  # it may also win
        namespace.remove(str(folder))
    over.set()
    filler.join(ANSWER_S)
    assert not filler.is_alive()


def test_output_of_ended_steps_is_kept_by_so_many_processes_and_no_more(monkeypatch):
    monkeypatch.setattr(supervisors, "KEPT_FOR_CLIENTS_MAX", 3)
    sent: list[tuple[str, bytes]] = []
    monkeypatch.setattr(control, "send", lambda sock, where, data: sent.append((orders.key_of(data), where)))
    keys = [StepKey(number, 1, 0) for number in range(6)]
    records: dict[StepKey, tuple[Claim, StepEnded]] = {}
    ended = asyncio.Event()

    def post(event: object) -> None:
        if isinstance(event, StepEnded) and event.key == keys[-1]:
            ended.set()

    async def scenario():
        launcher: Any = types.SimpleNamespace()
        launcher.orders, order_end = socket.socketpair()
        launcher.packets, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spool: Any = types.SimpleNamespace(read=lambda key: records.get(key, (None, None)))
        nothing: Any = None
        some = supervisors.Supervisors(spool, launcher, nothing, nothing, post, lambda: 1)
        await some.open()
        with order_end, packets:
            for number, key in enumerate(keys):
                user = 2000 if number == 1 else 1000
                records[key] = Claim(STEPD, 1, 1, user, 1, b"at-%d" % number), StepEnded(key, 1, 2)
                packets.send(orders.ended(str(key)))
            async with asyncio.timeout(ANSWER_S):
                await ended.wait()
            assert sent == [("0.1.0", b"at-0"), ("2.1.0", b"at-2")]
            records.clear()  # their folders are gone: only who keeps output is found
            assert [key.job_id for key in keys if some.address_of(key)] == [1, 3, 4, 5]
            some.close()

    asyncio.run(scenario())


def test_a_stepd_that_keeps_output_for_nobody_can_be_sent_away(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            gate = tmp_path / "gate"
            controller.launch_step(1, ["sh", "-c", f"echo out; until [ -e {gate} ]; do sleep 0.1; done"])
            await controller.step_started(1, 0)
            steps_fd = os.open(daemon.spool / "steps", os.O_RDONLY)
            claim, _ = read_record(steps_fd, "1.1.0/record")
            os.close(steps_fd)

            def owner() -> Client:
                client = Client(controller.registrations[-1].stream_port, (1, 1, 0))
                client.acks = False
                client.hello(IO_KEY, StreamRole.OWNER, 0)
                return client

            client = await asyncio.to_thread(owner)
            gate.touch()
            await controller.step_exited(1, 0)
            await asyncio.to_thread(client.until, FrameKind.END)
            order = orders.encode_signals("1.1.0", (9,), orders.SCOPE_ALL, "")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                control.send(sender, claim.control, order)
            with pytest.raises((EOFError, ConnectionResetError)):
                await asyncio.to_thread(client.take)

    asyncio.run(scenario())


def test_who_has_the_key_for_questions_can_only_ask(tmp_path):
    key = asking_key(IO_KEY)

    def come(port: int, shown: bytes, role: StreamRole) -> Client:
        client = Client(port, (1, 1, 0))
        client.hello(shown, role, 0)
        return client

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sleep", "1000"])
            await controller.step_started(1, 0)
            port = controller.registrations[-1].stream_port
            for role in (StreamRole.OWNER, StreamRole.VIEWER):
                with pytest.raises((EOFError, ConnectionResetError)):
                    await asyncio.to_thread(come, port, key, role)
            client = await asyncio.to_thread(come, port, key, StreamRole.QUERY)
            assert "pids" in await asyncio.to_thread(client.ask, "pids")
            client.send(FrameKind.SIGNAL, b"9")
            with pytest.raises((EOFError, ConnectionResetError)):
                await asyncio.to_thread(client.take)
            for wrong in (b"", b"\0" * 32, asking_key(b"")):
                with pytest.raises((EOFError, ConnectionResetError)):
                    await asyncio.to_thread(come, port, wrong, StreamRole.QUERY)
            assert controller.exits(1) == []

    asyncio.run(scenario())


def test_any_launch_is_an_order_or_refused_with_a_reason():
    """What the node daemon makes of it, in its loop and as root: BadValue is the only way out."""
    dice = random.Random(7)
    topology = topology_info.flat(2)
    site = Site(topology)
    site.settings.cgroup.constrain_cores = True
    site.settings.task_plugin = "task/affinity"
    node = wire.NodeFacts("n1", "n1", "", site)
    made = 0
    for _ in range(1000):
        message = make_step_launch(1, ["true"], ranks=(0, 1))
        spec = odd_message(dice, steps_pb2.StepSpec)
        spec.multi_prog.extend([] if dice.random() < 0.9 else [steps_pb2.RankCommand(ranks="*", argv=[b"x"])])
        message.step.spec.CopyFrom(spec)
        odd_environment = [b"", b"=", b"=x", b"NOVALUE", b"A=1", b"A\nB=1", b"\xff=\xff"]
        message.spec.environment[:] = dice.choices(odd_environment, k=dice.randrange(3))
        with contextlib.suppress(BadValue):
            order = wire.launch_order(message, node)
            body = order.encode()[orders.ORDER_HEAD.size + len(order.key) :]
            assert orders.decode_launch(order.key, body).key == order.key
            made += 1
    assert made > 100
