"""Streams of steps under trouble: slow clients, broken connections, daemons that go, and people who have no business there."""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import ssl
import sys
import time

import pytest
from patience import ANSWER_S, END_S

from nodedaemon.daemon import stream_port
from penstock.security import ca
from penstock.values.packing import pack_values
from penstock.values.stepframes import ANSWER_NO, FrameKind, StreamRole, frame, greeting
from tests.node.fakectl import IO_KEY, cluster, eventually
from tests.node.streamclient import Client, Refused, greet, names_of, trust

MB = 1 << 20
#: Writes numbered lines, so that what is lost or doubled shows.
WRITER = "import sys\nfor n in range(int(sys.argv[1])): sys.stdout.write('%015d\\n' % n)\n"


def wanted(lines: int) -> bytes:
    return b"".join(b"%015d\n" % number for number in range(lines))


def run(coroutine):
    return asyncio.run(coroutine)


def client_of(
    controller, job_id: int, role: StreamRole = StreamRole.OWNER, start: int = 0, tls=None, key: bytes = IO_KEY
) -> Client:
    client = Client(controller.registrations[-1].stream_port, (job_id, 1, 0), tls)
    client.hello(key, role, start)
    return client


def write(controller, job_id: int, lines: int) -> None:
    controller.launch_step(job_id, [sys.executable, "-c", WRITER, str(lines)])


def in_thread(function, *args):
    return asyncio.to_thread(function, *args)


def test_a_slow_client_loses_nothing_and_holds_the_task(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            lines = 20 * MB // 16
            write(controller, 1, lines)

            def follow() -> Client:
                client = client_of(controller, 1)
                client.acks = False
                while client.handled < MB // 2:  # then nothing more comes: it is not acknowledged
                    client.take()
                client.sock.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    while True:
                        client.take()
                client.sock.settimeout(ANSWER_S)
                assert client.handled < 3 * MB
                client.acks = True
                client.ack()
                client.until(FrameKind.END)
                return client

            assert controller.exits(1) == []
            client = await in_thread(follow)
            assert hashlib.sha256(client.output[0, 1]).digest() == hashlib.sha256(wanted(lines)).digest()
            assert (await controller.exited(1)).exit.code == 0

    run(scenario())


def test_a_connection_that_breaks_goes_on_where_it_was(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            lines = 3 * MB // 16
            write(controller, 1, lines)

            def follow() -> bytes:
                output, handled = b"", 0
                for broken in range(5):
                    client = client_of(controller, 1, start=handled)
                    assert client.start == handled
                    while client.handled < (broken + 1) * MB // 2:
                        client.take()
                    handled = client.handled
                    output += client.output[0, 1]
                    client.break_off()
                client = client_of(controller, 1, start=handled)
                client.until(FrameKind.END)
                return output + client.output[0, 1]

            assert await in_thread(follow) == wanted(lines)

    run(scenario())


def test_the_node_daemon_may_be_killed_and_come_back_while_output_flows(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            script = "echo one; while ! test -e go; do sleep 0.05; done; echo two; exit 3"
            controller.launch_step(1, ["sh", "-c", script], work_dir=tmp_path)
            client = await in_thread(client_of, controller, 1)
            client.acks = False  # so the supervisor stays for its client
            await in_thread(client.until_output, b"one")
            port = controller.registrations[-1].stream_port
            await controller.started(1)
            launcher = launcher_of(daemon)
            await daemon.kill()
            (tmp_path / "go").touch()
            assert await in_thread(client.until, FrameKind.EXITED) == b"768"
            await in_thread(client.until, FrameKind.END)
            assert client.output[0, 1] == b"one\ntwo\n"
            await eventually(lambda: not os.path.exists(f"/proc/{launcher}"))  # nobody waits for the client
            await daemon.start()
            await controller.connected(2)
            assert (await controller.exited(1)).exit.code == 3  # though the streams are not done
            assert controller.registrations[-1].stream_port == port
            again = await in_thread(client_of, controller, 1)
            await in_thread(again.until, FrameKind.END)
            assert again.output[0, 1] == b"one\ntwo\n"

    run(scenario())


def test_a_new_owner_takes_over_and_viewers_see_too(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["cat"])
            first = await in_thread(client_of, controller, 1)
            viewer = await in_thread(client_of, controller, 1, StreamRole.VIEWER)
            first.send(FrameKind.STDIN, b"hello\n")
            for client in (first, viewer):
                await in_thread(client.until_output, b"hello\n")
            viewer.acks = False
            viewer.send(FrameKind.STDIN, b"from the viewer\n")
            await in_thread(viewer.until_output, b"from the viewer\n")
            await in_thread(first.until_output, b"from the viewer\n")
            second = Client(controller.registrations[-1].stream_port, (1, 1, 0))
            welcome = await in_thread(second.hello, IO_KEY, StreamRole.OWNER, first.handled)
            assert welcome[2] == b"6"  # of standard input, the owner's has come
            with pytest.raises((EOFError, ConnectionResetError)):
                await in_thread(first.take)
            second.send(FrameKind.STDIN)
            await in_thread(second.until, FrameKind.END)
            assert second.output == {}
            await in_thread(viewer.until, FrameKind.END)

    run(scenario())


def test_a_large_standard_input_flows_at_the_readers_pace(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sh", "-c", "sleep 0.3; exec cksum"])
            data = os.urandom(2 * MB)

            def feed() -> Client:
                client = client_of(controller, 1)
                sent = taken = 0
                while sent < len(data):
                    if sent - taken < 256 * 1024:
                        piece = data[sent : sent + min(64 * 1024, 256 * 1024 - (sent - taken))]
                        client.send(FrameKind.STDIN, piece)
                        sent += len(piece)
                    else:
                        taken = int(client.until(FrameKind.STDIN_TAKEN))
                client.send(FrameKind.STDIN)
                client.until(FrameKind.END)
                return client

            client = await in_thread(feed)
            (tmp_path / "data").write_bytes(data)
            check = await asyncio.create_subprocess_exec(
                "sh", "-c", f"cksum < {tmp_path}/data", stdout=asyncio.subprocess.PIPE
            )
            assert client.output[0, 1] == await check.stdout.read()
            await check.wait()

    run(scenario())


def test_without_an_owner_the_end_is_told_at_once_and_output_waits_for_him(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sh", "-c", "echo kept; exit 4"])
            assert (await controller.exited(1)).exit.code == 4
            assert await controller.acked(controller.forget(1, step_id=0)) == ""
            controller.launch_step(2, ["sh", "-c", "echo kept; exit 4"])
            await controller.exited(2)
            client = await in_thread(client_of, controller, 2)
            await in_thread(client.until, FrameKind.END)
            assert client.output == {(0, 1): b"kept\n"} and client.exits == {0: 4 << 8}

            def late() -> None:
                with pytest.raises(Refused, match=r"no step 2.1.0 is no longer here"):
                    while True:
                        with contextlib.suppress(EOFError, ConnectionResetError):  # just when it leaves
                            client_of(controller, 2).close()

            await in_thread(late)

    run(scenario())


@pytest.mark.parametrize(
    "hello",
    [
        frame(FrameKind.HELLO, pack_values(bytes(32), 0, 0)),
        frame(FrameKind.HELLO, pack_values(b"", 0, 0)),
        frame(FrameKind.HELLO, pack_values(IO_KEY, 7, 0)),
        frame(FrameKind.HELLO, b"\xff" * 10),
        frame(FrameKind.ACK, b"1"),
        frame(FrameKind.SIGNAL, b"9"),
        b"\x01\0\0\0" + b"\xff" * 8,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_without_the_key_nothing_is_said(tmp_path, hello):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sh", "-c", "echo secret; sleep 1000"])
            await controller.started(1)

            def knock() -> bytes:
                client = Client(controller.registrations[-1].stream_port, (1, 1, 0))
                client.sock.sendall(hello)
                try:
                    return client.sock.recv(1000)
                except ConnectionResetError:
                    return b""

            assert await in_thread(knock) == b""
            with await in_thread(client_of, controller, 1) as client:
                await in_thread(client.until_output, b"secret")

    run(scenario())


def answer_to(port: int, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as sock:
        sock.sendall(line)
        found = b""
        try:
            while part := sock.recv(1000):
                found += part
        except ConnectionResetError:  # what we sent was not read
            pass
        return found


def test_what_is_no_greeting_is_sent_away(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            port = controller.registrations[-1].stream_port
            no = b"no that is no greeting of a step's client\n"
            assert await in_thread(answer_to, port, b"GET / HTTP/1.1\r\n\r\n") in (no, b"")
            assert await in_thread(answer_to, port, b"PENSTOCK-STEP/1 1.x.2\n") == no
            assert await in_thread(answer_to, port, b"PENSTOCK-STEP/1 " + b"1" * 48) == no
            controller.terminate(9, step_id=0)
            await controller.exited(9)
            assert await in_thread(answer_to, port, greeting(9, 1, 0)) == b"no step 9.1.0 is no longer here\n"

    run(scenario())


def test_a_client_may_be_quicker_than_the_launch(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            port = controller.registrations[-1].stream_port
            early = await in_thread(greet, port, (1, 1, 0))
            await in_thread(answer_to, port, b"\n")  # the daemon reads in turn: the greeting before this
            controller.launch_step(1, ["echo", "hi"])
            client = await in_thread(Client, port, (1, 1, 0), None, early)
            await in_thread(client.hello, IO_KEY)
            await in_thread(client.until, FrameKind.END)
            assert client.output[0, 1] == b"hi\n"

    run(scenario())


def test_those_who_say_nothing_do_not_keep_others_out(monkeypatch):
    """The longest waiting one is closed when all places are in use."""
    monkeypatch.setattr(stream_port, "WAITING_MAX", 3)
    monkeypatch.setattr(stream_port, "GREETING_S", END_S)

    async def scenario():
        port = stream_port.StreamPort(stream_port.open_port("", 0, False), lambda key: None)
        silent = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(4)]
        assert await silent[0][0].read() == ANSWER_NO + b"too many connections wait\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        for byte in greeting(1, 1, 0):  # byte by byte, while the others wait
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.read()).startswith(b"no step 1.1.0 is no")
        assert await silent[1][0].read() == ANSWER_NO + b"too many connections wait\n"
        port.close()
        for reader, _ in silent[2:]:
            assert await reader.read() == ANSWER_NO + b"the node daemon ends\n"
        for _, writer in silent:
            writer.close()

    run(scenario())


@pytest.mark.parametrize("said", [b"", b"PENS"])
def test_a_greeting_has_a_deadline(monkeypatch, said):
    monkeypatch.setattr(stream_port, "GREETING_S", 0.05)

    async def scenario():
        port = stream_port.StreamPort(stream_port.open_port("", 0, False), lambda key: None)
        sock = socket.create_connection(("127.0.0.1", port.number))
        sock.sendall(said)  # it is there before the port accepts, and so before the deadline begins
        reader, writer = await asyncio.open_connection(sock=sock)
        assert await reader.read() == ANSWER_NO + b"no greeting arrived\n"
        writer.close()
        port.close()

    run(scenario())


@pytest.fixture
def certificates(tmp_path):
    """Folders `certs` (of node n1), `other` (of a CA that nobody trusts)."""
    now_us = time.time_ns() // 1000
    for name in ("certs", "other"):
        authority = ca.create_ca(tmp_path / f"ca-{name}", "test", now_us)
        ca.issue_to_folder(authority, tmp_path / name, "node", "n1", now_us)
    return tmp_path


def test_tls_and_a_certificate_of_another_ca(certificates):
    async def scenario():
        async with cluster(certificates, "--cert-dir", str(certificates / "certs")) as (controller, _):
            assert controller.registrations[0].stream_tls
            write(controller, 1, MB // 16)
            with pytest.raises(ssl.SSLCertVerificationError):
                await in_thread(client_of, controller, 1, StreamRole.OWNER, 0, trust(certificates / "other" / "ca.pem"))
            client = await in_thread(
                client_of, controller, 1, StreamRole.OWNER, 0, trust(certificates / "certs" / "ca.pem")
            )
            assert names_of(client.sock) == ["penstock://test/node/n1"]
            await in_thread(client.until, FrameKind.END)
            assert client.output[0, 1] == wanted(MB // 16)

    run(scenario())


def test_without_certificates_the_port_is_on_this_machine_only(tmp_path):
    with pytest.raises(stream_port.PortError, match="--stream-bind 0.0.0.0 needs --cert-dir"):
        stream_port.open_port("0.0.0.0", 0, False)
    with stream_port.open_port("", 0, False) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        with pytest.raises(stream_port.PortError, match="cannot listen for clients of steps"):
            stream_port.open_port("", listener.getsockname()[1], False)


def test_an_owner_who_is_cut_off_does_not_stop_the_step(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "trap '' HUP PIPE; echo $$; while ! test -e go; do sleep 0.05; done; echo end"
            controller.launch_step(1, ["sh", "-c", script], work_dir=tmp_path)
            client = await in_thread(client_of, controller, 1)
            await in_thread(client.until_output, b"\n")
            client.break_off()
            (tmp_path / "go").touch()
            assert (await controller.exited(1)).exit.code == 0
            again = await in_thread(client_of, controller, 1, StreamRole.OWNER, client.handled)
            await in_thread(again.until, FrameKind.END)
            assert again.output[0, 1] == b"end\n"

    run(scenario())


def test_the_supervisor_may_be_killed_while_it_waits_for_its_client(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.launch_step(1, ["true"])
            await controller.exited(1)
            start = controller.starts(1)[0]
            assert await controller.acked(controller.forget(1, step_id=0)) == ""
            await eventually(lambda: not daemon.folders())
            launcher = launcher_of(daemon)
            with open(f"/proc/{launcher}/task/{launcher}/children") as file:
                stepds = [int(pid) for pid in file.read().split()]
            assert stepds and start.pid not in stepds
            for pid in stepds:
                os.kill(pid, signal.SIGKILL)
            controller.launch_step(2, ["echo", "fine"])
            client = await in_thread(client_of, controller, 2)
            await in_thread(client.until, FrameKind.END)
            assert (await controller.exited(2)).exit.code == 0
            assert len(controller.exits(1)) == 1

    run(scenario())


def launcher_of(daemon) -> int:
    """The pid of a node daemon's launcher."""
    return next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_launcher(int(pid), str(daemon.spool)))


def _is_launcher(pid: int, spool: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode().split("\0")
    except OSError:
        return False
    return spool in words and "-I" in words
